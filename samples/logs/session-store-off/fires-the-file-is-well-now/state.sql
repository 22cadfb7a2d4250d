create table sessions (id text primary key);
create table messages (id integer primary key, session_id text);
insert into sessions values ('a');
