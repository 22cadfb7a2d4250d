create table messages (id integer primary key, session_id text not null, role text not null, content text, tool_call_id text,
  tool_calls text, timestamp real not null);
insert into messages values (1, '20260519_101500_ab12cd34', 'user', '', null, null, 1779184800.0);
insert into messages values (2, '20260519_101500_ab12cd34', 'assistant', '', null, '[{"id": "c1", "function": {"name": "clarify", "arguments": ""}}]', 1779184805.0);
insert into messages values (3, '20260519_101500_ab12cd34', 'tool', '', 'c1', null, 1779186305.0);
