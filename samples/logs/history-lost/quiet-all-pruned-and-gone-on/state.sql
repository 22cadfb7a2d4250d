-- Everything that the backup knew was pruned; numbers go on.
create table sessions (id text primary key, source text not null, started_at real not null);
create table messages (id integer primary key autoincrement, session_id text not null, role text not null, content text,
  timestamp real not null);
insert into sessions values ('20260519_080100_ab12cd34', 'telegram', 1779177660.0);
insert into messages values (801, '20260519_080100_ab12cd34', 'user', 'hi', 1779186600.0);
