-- Each session's last message is its user's: the model is to speak.
create table messages (id integer primary key, session_id text not null, role text not null, content text, tool_call_id text,
  tool_calls text, timestamp real not null);
insert into messages (session_id, role, content, timestamp) values ('20260519_101500_aaaa1111', 'user', '', 1.0);
