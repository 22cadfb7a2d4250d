-- Each session's last message is its user's: the model is to speak.
create table messages (id integer primary key, session_id text not null, role text not null, content text, tool_call_id text,
  tool_calls text, timestamp real not null);
insert into messages (session_id, role, content, timestamp) values ('20261116_010112_5ef66dda', 'user', '', 1.0);
