-- The session's last message calls clarify, and no answer is there: the person has not chosen yet.
create table messages (id integer primary key, session_id text not null, role text not null, content text, tool_call_id text,
  tool_calls text, timestamp real not null);
insert into messages values (1, '20261118_021445_2521bb34', 'user', '', null, null, 1794968084.0);
insert into messages values (2, '20261118_021445_2521bb34', 'assistant', '', null,
  '[{"id": "call_cee49c90", "type": "function", "function": {"name": "clarify", "arguments": "{}"}}]', 1794968106.66);
