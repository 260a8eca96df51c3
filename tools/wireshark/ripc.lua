-- SPDX-License-Identifier: LGPL-2.1-or-later
--
-- Wireshark's view of libripc: its messages in iWARP Sends, in Sends and writes with immediate data
-- of InfiniBand and RoCE, and in UDP datagrams, the set-up of its connections in the private data of
-- MPA, and the resolver's datagrams. Formats: doc/protocol.md of libripc.
--
--     wireshark -X lua_script:ripc.lua       or copy this file into the directory of personal Lua plugins
--
-- Filters: ripc (messages), ripc_hello (set-up), ripc_resolver, ripc_seal (of datagrams with keys), ripc_confirm (of a lane with keys); ripc.kind == 1, ripc.dest == 42 and so on. What breaks
-- a rule of the format is marked as malformed: _ws.malformed or ripc.broken.

local HEADER_LEN, ELIDED_LEN, DESC_LEN, INSTANCE_LEN, ACK_LEN = 32, 4, 24, 16, 8
local CALL_LEN, ELIDED_DATAGRAM_LEN = 16, 12
local RECORD_LEN, RESOLVER_LEN, HELLO_LEN, LISTED_LEN = 57, 24, 64, 21
local SEAL_HEAD, CODE_LEN, PROOF_LEN, CONFIRM_LEN = 48, 32, 56, 40

local kinds = {
	[1] = "SHORT", [2] = "LONG", [3] = "ACK", [4] = "GRANT", [5] = "FIN", [6] = "CANCEL", [7] = "CREDIT",
	[8] = "PING", [9] = "PONG", [10] = "REVOKE", [11] = "REVOKED", [12] = "NOSERVICE", [13] = "BYE",
	[16] = "GROUP", [17] = "JOIN", [18] = "MEMBER", [19] = "COORDINATOR", [20] = "MCAST_ACK",
	[14] = "RELIABLE_BEGIN", [15] = "RELIABLE_ACK", [21] = "CALL_CANCEL", [22] = "CALL_STATE",
	[23] = "GOAWAY", [24] = "MAP_ACK", [25] = "RELEASE", [26] = "UNMAP", [27] = "RELIABLE_REFUSED",
	[28] = "WATCH", [29] = "WATCH_END", [30] = "STANDING_GRANT",
	[31] = "DATAGRAM_CONTEXT", [32] = "DATAGRAM_CONTEXT_ACK", [33] = "ACK_REQUEST", [34] = "FLOW_END",
}
local hows = { [0] = "inline", [1] = "read", [2] = "written", [3] = "grant", [4] = "mapped" }
local refusals = {
	[0] = "none", [1] = "that instance is not here", [2] = "crossed", [3] = "closing", [4] = "out of memory",
	[5] = "another version",
}
local resolver_kinds = { [1] = "REQUEST", [2] = "REPLY", [3] = "PROBE", [4] = "GONE", [5] = "LIST",
	[6] = "LISTED" }
local transports = {
	[1] = "self", [3] = "iwarp/soft", [4] = "ib", [5] = "iwarp/verbs", [6] = "shm", [7] = "pcie",
	[254] = "ring/sim", [255] = "sim",
}

local function service_text(id)
	return id == UInt64(0) and "none" or tostring(id)
end

---- Messages between contexts -------------------------------------------------------------------------------------------------

local ripc = Proto("ripc", "libripc message")
local f = ripc.fields
f.magic = ProtoField.uint16("ripc.magic", "Magic", base.HEX)
f.version = ProtoField.uint8("ripc.version", "Version")
f.kind = ProtoField.uint8("ripc.kind", "Kind", base.DEC, kinds)
f.flags = ProtoField.uint16("ripc.flags", "Flags", base.HEX)
f.has_instance = ProtoField.bool("ripc.flags.instance", "Instance id follows", 16, nil, 0x0001)
f.has_ack = ProtoField.bool("ripc.flags.ack", "A piggybacked ACK follows", 16, nil, 0x0002)
f.is_reliable = ProtoField.bool("ripc.flags.reliable", "Reliable", 16, nil, 0x0004)
f.is_call = ProtoField.bool("ripc.flags.call", "Request of a call", 16, nil, 0x0008)
f.is_reply = ProtoField.bool("ripc.flags.reply", "Answer of a call", 16, nil, 0x0010)
f.ack_now = ProtoField.bool("ripc.flags.ack_now", "ACK at delivery", 16, nil, 0x0020)
f.call = ProtoField.uint64("ripc.call", "Call", base.HEX)
f.call_time = ProtoField.uint32("ripc.call.time", "Milliseconds left")
f.call_status = ProtoField.int32("ripc.call.status", "Status of the answer")
f.call_state = ProtoField.uint64("ripc.call.state", "State of the request", base.DEC,
	{ [0] = "not executed", [1] = "not executed, moved", [2] = "received", [3] = "unknown" })
f.reliable_number = ProtoField.uint64("ripc.reliable", "Reliable number")
f.nitems = ProtoField.uint16("ripc.nitems", "Items")
f.dest = ProtoField.uint64("ripc.dest", "Destination service")
f.source = ProtoField.uint64("ripc.source", "Source service")
f.seq = ProtoField.uint32("ripc.seq", "Sequence number")
f.elided = ProtoField.uint8("ripc.elided", "Magic of a short header", base.HEX)
f.seq_low = ProtoField.uint16("ripc.seq_low", "Sequence number, lower half")
f.credits = ProtoField.uint16("ripc.credits", "Credits")
f.nreturns = ProtoField.uint16("ripc.nreturns", "Return buffers")
f.instance = ProtoField.bytes("ripc.instance", "Instance")
f.request = ProtoField.uint64("ripc.request", "Request")
f.reusable = ProtoField.bool("ripc.reusable", "Standing buffers reusable")
f.below = ProtoField.uint64("ripc.dedup_base", "Finished below")
f.status = ProtoField.int32("ripc.status", "Status")
f.ack_flags = ProtoField.uint32("ripc.ack.flags", "Flags of the ACK", base.HEX)
f.ack_kept = ProtoField.bool("ripc.ack.kept", "Kept: a RELEASE follows for each mapped item", 32, nil, 0x1)
f.answer = ProtoField.uint64("ripc.answer", "Answer")
f.buffer = ProtoField.uint64("ripc.buffer", "Exported buffer")
f.release_item = ProtoField.uint32("ripc.release", "Item")
f.release_flags = ProtoField.uint32("ripc.release.flags", "Item, upper half", base.HEX)
f.release_read = ProtoField.bool("ripc.release.read", "Another process may still read it", 32, nil, 0x1)
f.release_ack = ProtoField.bool("ripc.release.ack", "ACK of the message", 32, nil, 0x2)
f.limit = ProtoField.uint64("ripc.limit", "Limit")
f.arrived = ProtoField.uint64("ripc.arrived", "Arrived")
f.nonce = ProtoField.uint64("ripc.nonce", "Nonce", base.HEX)
f.return_id = ProtoField.uint64("ripc.return", "Return buffer")
f.number = ProtoField.uint64("ripc.number", "Number in the group")
f.datagram = ProtoField.uint64("ripc.datagram", "Number of the datagram")
f.context_id = ProtoField.uint64("ripc.context", "Header context", base.HEX)
f.context_first = ProtoField.uint64("ripc.context.first", "First number")
f.context_bytes = ProtoField.bytes("ripc.context.bytes", "Header context")
f.context_unknown = ProtoField.bool("ripc.context.unknown", "Header context is not known")
f.datagram_low = ProtoField.uint32("ripc.datagram_low", "Number of the datagram, lower half", base.HEX)
f.role = ProtoField.uint64("ripc.role", "Role", base.DEC, { [0] = "none", [1] = "sender", [2] = "member" })
f.present = ProtoField.uint64("ripc.present", "Present")
f.coordinating = ProtoField.uint64("ripc.coordinating", "Coordinating")
f.list_version = ProtoField.uint64("ripc.list_version", "Version of the list")
f.record = ProtoField.bytes("ripc.record", "Record")
f.item_len = ProtoField.uint32("ripc.item.len", "Item length")
f.item = ProtoField.bytes("ripc.item", "Item")
f.desc = ProtoField.none("ripc.desc", "Descriptor")
f.desc_addr = ProtoField.uint64("ripc.desc.addr", "Address", base.HEX)
f.desc_len = ProtoField.uint64("ripc.desc.len", "Length")
f.desc_key = ProtoField.uint32("ripc.desc.key", "Key", base.HEX)
f.desc_how = ProtoField.uint32("ripc.desc.how", "How", base.DEC, hows)
f.desc_id = ProtoField.uint32("ripc.desc.id", "Id")
f.imm = ProtoField.uint32("ripc.imm", "Immediate data in place of a LONG", base.HEX)
f.imm_buffer = ProtoField.uint32("ripc.imm.buffer", "Standing buffer, lower bits", base.DEC, nil,
	0xff000000)
f.imm_acked = ProtoField.uint32("ripc.imm.acked", "Acknowledged request, lower bits", base.DEC, nil,
	0x00ffc000)
f.imm_ack = ProtoField.bool("ripc.imm.ack", "A piggybacked ACK", 32, nil, 0x00002000)
f.imm_older = ProtoField.uint32("ripc.imm.older", "Request less dedup base", base.DEC, nil,
	0x00001e00)
f.imm_credits = ProtoField.uint32("ripc.imm.credits", "Credits", base.DEC, nil, 0x000001f0)
f.imm_seq = ProtoField.uint32("ripc.imm.seq", "Sequence number, lower bits", base.DEC, nil,
	0x0000000f)
f.written = ProtoField.bytes("ripc.written", "Bytes written of the item")
local broken = ProtoExpert.new("ripc.broken", "Breaks the format", expert.group.MALFORMED, expert.severity.ERROR)
ripc.experts = { broken }

local function complain(tree, text)
	tree:add_proto_expert_info(broken, text)
end

-- The number of a request; bit 63 of an ACK is about standing buffers.
local function add_request(tree, part)
	local number = part:le_uint64()
	tree:add(f.request, part, number:band(UInt64(0xffffffff, 0x7fffffff)))
	if number:rshift(63) == UInt64(1) then
		tree:add(f.reusable, part, true)
	end
end

-- One descriptor at an offset; one of a return buffer has an id in place of how. Return: the bytes that are in the message.
local function add_desc(tree, buf, at, i, is_return)
	local part = buf(at, DESC_LEN)
	local len = part(8, 8):le_uint64()
	local how = part(20, 4):le_uint()
	local id = how == 0 and "not to be written" or string.format("id %d", how)
	local text = is_return
		and string.format("Return buffer %d: %s bytes, %s", i, tostring(len), id)
		or string.format("Item %d: %s bytes, %s", i, tostring(len), hows[how] or "?")
	local sub = tree:add(f.desc, part):set_text(text)
	sub:add_le(f.desc_addr, part(0, 8))
	sub:add_le(f.desc_len, part(8, 8))
	sub:add_le(f.desc_key, part(16, 4))
	sub:add_le(is_return and f.desc_id or f.desc_how, part(20, 4))
	if not is_return and how > 4 then
		complain(sub, "There is no such way for an item")
	end
	return (not is_return and how == 0) and len:tonumber() or 0
end

-- Fixed words of each kind: the fields, each with its bytes, and the fields of its bits.
local words = {
	[2] = { { f.request, 8 }, { f.below, 8 } },
	[3] = { { f.request, 8 }, { f.status, 4 }, { f.ack_flags, 4, { f.ack_kept } } },
	[4] = { { f.request, 8 } },
	[5] = { { f.request, 8 } },
	[6] = { { f.request, 8 } },
	[7] = { { f.limit, 8 } },
	[8] = { { f.nonce, 8 } },
	[9] = { { f.nonce, 8 } },
	[10] = { { f.return_id, 8 } },
	[11] = { { f.return_id, 8 } },
	[16] = { { f.number, 8 } },
	[17] = { { f.role, 8 }, { f.list_version, 8 } },
	[18] = { { f.present, 8 }, { f.list_version, 8 } },
	[19] = { { f.coordinating, 8 }, { f.list_version, 8 } },
	[20] = { { f.number, 8 } },
	[14] = { { f.reliable_number, 8 } },
	[15] = { { f.reliable_number, 8 } },
	[21] = { { f.call, 8 } },
	[22] = { { f.call, 8 }, { f.call_state, 8 } },
	[23] = { { f.answer, 8 } },
	[24] = { { f.buffer, 8 } },
	[25] = { { f.request, 8 }, { f.release_item, 4 },
		{ f.release_flags, 4, { f.release_read, f.release_ack } } },
	[26] = { { f.buffer, 8 } },
	[27] = { { f.reliable_number, 8 } },
	[31] = { { f.context_id, 8 }, { f.context_first, 8 } },
	[32] = { { f.context_id, 8 } },
	[33] = { { f.request, 8 } },
	[34] = { { f.arrived, 8 } },
}
local takes_items = { [1] = true, [2] = true, [4] = true, [16] = true }
local takes_lengths = { [1] = true, [16] = true }
local takes_record = { [17] = true, [18] = true }

-- A call: its id, and the time of a request or the status of an answer. Returns the offset behind it, or nil.
local function add_call(tree, buf, at, flags)
	if buf:len() - at < CALL_LEN then
		return nil
	end
	tree:add_le(f.call, buf(at, 8))
	tree:add_le(math.floor(flags / 8) % 2 == 1 and f.call_time or f.call_status, buf(at + 8, 4))
	return at + CALL_LEN
end

-- Everything behind the header; stops with false as soon as there is not enough of it.
local function add_body(tree, buf, kind, nitems, nreturns, flags)
	local at, len = HEADER_LEN, buf:len()
	local sizes = {}

	if flags % 2 == 1 then
		if len - at < INSTANCE_LEN then
			return false
		end
		tree:add(f.instance, buf(at, INSTANCE_LEN))
		at = at + INSTANCE_LEN
	end
	if math.floor(flags / 2) % 2 == 1 then
		if len - at < ACK_LEN then
			return false
		end
		add_request(tree, buf(at, ACK_LEN))
		at = at + ACK_LEN
	end
	local has_call = math.floor(flags / 8) % 4 ~= 0
	if has_call and not takes_lengths[kind] then
		at = add_call(tree, buf, at, flags)
		if not at then
			return false
		end
	end
	for _, word in ipairs(words[kind] or {}) do
		if len - at < word[2] then
			return false
		end
		if word[1] == f.request then
			add_request(tree, buf(at, word[2]))
		else
			local sub = tree:add_le(word[1], buf(at, word[2]))
			for _, bits in ipairs(word[3] or {}) do
				sub:add_le(bits, buf(at, word[2]))
			end
		end
		at = at + word[2]
	end
	for i = 1, takes_items[kind] and nitems or 0 do
		if len - at < (takes_lengths[kind] and 4 or DESC_LEN) then
			return false
		end
		if takes_lengths[kind] then
			tree:add_le(f.item_len, buf(at, 4))
			sizes[i] = buf(at, 4):le_uint()
			at = at + 4
		else
			local inline = add_desc(tree, buf, at, i - 1, false)
			-- A GRANT has no payload.
			sizes[i] = kind == 2 and inline or 0
			at = at + DESC_LEN
		end
	end
	if has_call and takes_lengths[kind] then
		at = add_call(tree, buf, at, flags)
		if not at then
			return false
		end
	end
	for i = 1, nreturns do
		if len - at < DESC_LEN then
			return false
		end
		add_desc(tree, buf, at, i - 1, true)
		at = at + DESC_LEN
	end
	for _, size in ipairs(sizes) do
		if len - at < size then
			return false
		end
		if size > 0 then
			tree:add(f.item, buf(at, size))
		end
		at = at + size
	end
	if takes_record[kind] and len > at then
		tree:add(f.record, buf(at))
		at = len
	end
	return at == len
end

local function looks_like_message(buf)
	return buf:len() >= HEADER_LEN and buf(0, 2):le_uint() == 0x7072 and
		buf(2, 1):uint() == 5 and kinds[buf(3, 1):uint()] ~= nil
end

-- Of each direction of a connection: between whom the last full SHORT went, and the lower half of the number that is due; and what each
-- frame with an ELIDED was told of that. Frames are looked at in order only once.
local last, due, told = {}, {}, {}

-- The queue pair that a packet of InfiniBand or RoCE goes to, and the kind of the packet.
local ib_queue_pair = Field.new("infiniband.bth.destqp")
local ib_opcode, ib_padding = Field.new("infiniband.bth.opcode"), Field.new("infiniband.bth.padcnt")
local ib_immediate = Field.new("infiniband.immdt")

local function way(pinfo)
	local queue_pair = ib_queue_pair()

	if queue_pair then
		return string.format("%s %s %d", tostring(pinfo.src), tostring(pinfo.dst), queue_pair.value)
	end
	return string.format("%s %d %s %d", tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port)
end

-- The flags of the SHORT for which an ELIDED stands, by its first byte.
local elided_flags = { [0x61] = 0x00, [0x62] = 0x04, [0x63] = 0x0c, [0x64] = 0x14 }

local function looks_elided(buf, pinfo)
	local flags = buf:len() >= ELIDED_LEN and elided_flags[buf(0, 1):uint()]
	if not flags or (flags >= 8 and buf:len() < ELIDED_LEN + CALL_LEN) then
		return false
	end
	if pinfo.visited then
		return told[pinfo.number] ~= nil
	end
	return last[way(pinfo)] ~= nil and buf(2, 2):le_uint() == due[way(pinfo)]
end

local function again(buf, pinfo, root)
	local tree = root:add(ripc, buf())

	if not pinfo.visited then
		told[pinfo.number] = last[way(pinfo)]
		due[way(pinfo)] = (due[way(pinfo)] + 1) % 65536
	end
	local between = told[pinfo.number]
	tree:add(f.elided, buf(0, 1))
	tree:add_le(f.credits, buf(1, 1))
	tree:add_le(f.seq_low, buf(2, 2))
	tree:add(f.kind, 1):set_generated()
	tree:add(f.dest, between.dest):set_generated()
	tree:add(f.source, between.source):set_generated()
	local flags, at = elided_flags[buf(0, 1):uint()], ELIDED_LEN
	for _, flag in ipairs({ f.flags, f.is_reliable, f.is_call, f.is_reply }) do
		tree:add(flag, flags):set_generated()
	end
	if flags >= 8 then
		at = add_call(tree, buf, at, flags)
	end
	if buf:len() > at then
		tree:add(f.item, buf(at))
	end
	tree:append_text(string.format(", SHORT again, %s -> %s", service_text(between.source), service_text(between.dest)))
	pinfo.cols.protocol = "RIPC"
	pinfo.cols.info:set(string.format("SHORT again %s -> %s, seq ..%04x", service_text(between.source),
		service_text(between.dest), buf(2, 2):le_uint()))
	return buf:len()
end

-- The services of each header context of datagrams, by the 7 bytes of its id. An id is never used again.
local contexts = {}

-- Whether it is an ELIDED_DATAGRAM, or an UNKNOWN_CONTEXT, of a context that was seen.
local function looks_elided_datagram(buf)
	local first = buf:len() >= ELIDED_DATAGRAM_LEN and buf(0, 1):uint()
	return (first == 0x65 or (first == 0x66 and buf:len() == ELIDED_DATAGRAM_LEN)) and
		contexts[tostring(buf(1, 7):bytes())] ~= nil
end

local function elided_datagram(buf, pinfo, root)
	local tree = root:add(ripc, buf())
	local between = contexts[tostring(buf(1, 7):bytes())]
	local unknown = buf(0, 1):uint() == 0x66
	local name = unknown and "UNKNOWN_CONTEXT" or "SHORT again"

	tree:add(f.elided, buf(0, 1))
	tree:add(f.context_bytes, buf(1, 7))
	tree:add_le(f.datagram_low, buf(8, 4))
	tree:add(f.context_unknown, unknown):set_generated()
	if not unknown then
		tree:add(f.kind, 1):set_generated()
	end
	tree:add(f.dest, between.dest):set_generated()
	tree:add(f.source, between.source):set_generated()
	if buf:len() > ELIDED_DATAGRAM_LEN then
		tree:add(f.item, buf(ELIDED_DATAGRAM_LEN))
	end
	local text = string.format("%s %s -> %s", name, service_text(between.source), service_text(between.dest))
	tree:append_text(", " .. text)
	pinfo.cols.protocol = "RIPC"
	pinfo.cols.info:set(string.format("%s, number ..%08x", text, buf(8, 4):le_uint()))
	return buf:len()
end

-- The services and the request of the last LONG in each direction of a lane, and the LONG for which
-- the write with immediate data in a frame stands.
local last_long, replaced_long = {}, {}
-- Whether the packet is the first of several.
local is_first = false

-- The number of the request of a LONG, or nil.
local function request_of(buf, flags)
	local at = HEADER_LEN + (flags % 2 == 1 and INSTANCE_LEN or 0) +
		(math.floor(flags / 2) % 2 == 1 and ACK_LEN or 0) +
		(math.floor(flags / 8) % 4 ~= 0 and CALL_LEN or 0)
	return buf:len() >= at + 8 and buf(at, 8):le_uint64() or nil
end

function ripc.dissector(buf, pinfo, root)
	local tree = root:add(ripc, buf())
	local kind, flags = buf(3, 1):uint(), buf(4, 2):le_uint()
	local is_datagram = flags % 2 == 1
	local nitems, nreturns = buf(6, 2):le_uint(), is_datagram and 0 or buf(30, 2):le_uint()
	local number = tostring(is_datagram and buf(24, 8):le_uint64() or buf(24, 4):le_uint())
	local dest, source = buf(8, 8):le_uint64(), buf(16, 8):le_uint64()
	local name = kinds[kind] or "?"

	if not pinfo.visited and not is_datagram then
		due[way(pinfo)] = (buf(24, 2):le_uint() + 1) % 65536
		if kind == 1 and flags % 4 == 0 and nitems == 1 and nreturns == 0 then
			last[way(pinfo)] = { dest = dest, source = source }
		end
	end
	if kind == 2 and not pinfo.visited then
		local request = request_of(buf, flags)
		last_long[way(pinfo)] = request and { dest = dest, source = source, request = request }
	end
	if kind == 31 and buf:len() >= HEADER_LEN + 16 then
		contexts[tostring(buf(HEADER_LEN, 7):bytes())] = { dest = dest, source = source }
	end
	tree:add_le(f.magic, buf(0, 2))
	tree:add_le(f.version, buf(2, 1))
	tree:add_le(f.kind, buf(3, 1))
	local flag_tree = tree:add_le(f.flags, buf(4, 2))
	flag_tree:add_le(f.has_instance, buf(4, 2))
	flag_tree:add_le(f.has_ack, buf(4, 2))
	flag_tree:add_le(f.is_reliable, buf(4, 2))
	flag_tree:add_le(f.is_call, buf(4, 2))
	flag_tree:add_le(f.is_reply, buf(4, 2))
	flag_tree:add_le(f.ack_now, buf(4, 2))
	tree:add_le(f.nitems, buf(6, 2))
	tree:add_le(f.dest, buf(8, 8))
	tree:add_le(f.source, buf(16, 8))
	if is_datagram then
		tree:add_le(f.datagram, buf(24, 8))
	else
		tree:add_le(f.seq, buf(24, 4))
		tree:add_le(f.credits, buf(28, 2))
		tree:add_le(f.nreturns, buf(30, 2))
	end
	tree:append_text(string.format(", %s, %s -> %s", name, service_text(source), service_text(dest)))
	if nitems > 64 or nreturns > 16 or
		(not add_body(tree, buf, kind, nitems, nreturns, flags) and not is_first) then
		complain(tree, "The lengths do not add up to that of the message")
	end
	pinfo.cols.protocol = "RIPC"
	pinfo.cols.info:set(string.format("%s %s -> %s, %d items, %s %s", name,
		service_text(source), service_text(dest), nitems,
		is_datagram and "number" or "seq", number))
	return buf:len()
end

local function message_heuristic(buf, pinfo, root)
	if looks_elided(buf, pinfo) then
		again(buf, pinfo, root)
		return true
	end
	if not looks_like_message(buf) then
		return false
	end
	ripc.dissector(buf, pinfo, root)
	return true
end
-- Only a first segment begins with a header; what is behind it in longer Sends does not look like one.
ripc:register_heuristic("iwarp_ddp_rdmap", message_heuristic)

-- The last or only packet of a write with immediate data, which stands for a LONG behind the last
-- one of its lane.
local function immediate_write(buf, pinfo, root, word)
	local before = last_long[way(pinfo)]

	if not pinfo.visited and before then
		local this = { dest = before.dest, source = before.source, request = before.request + 1 }
		last_long[way(pinfo)] = this
		replaced_long[pinfo.number] = this
	end
	local long = replaced_long[pinfo.number]
	if not long then
		return false
	end
	local tree = root:add(ripc, buf())
	local sub = tree:add(f.imm, word)
	for _, field in ipairs({ f.imm_buffer, f.imm_acked, f.imm_ack, f.imm_older, f.imm_credits,
		f.imm_seq }) do
		sub:add(field, word)
	end
	tree:add(f.kind, 2):set_generated()
	tree:add(f.dest, long.dest):set_generated()
	tree:add(f.source, long.source):set_generated()
	tree:add(f.request, long.request):set_generated()
	tree:add(f.below, long.request - math.floor(word:uint() / 512) % 16):set_generated()
	tree:add(f.written, buf())
	local text = string.format("LONG %s -> %s, written, request %s", service_text(long.source),
		service_text(long.dest), tostring(long.request))
	tree:append_text(", " .. text)
	pinfo.cols.protocol = "RIPC"
	pinfo.cols.info:set(string.format("%s, buffer ..%02x, seq ..%x", text,
		math.floor(word:uint() / 2 ^ 24), word:uint() % 16))
	return true
end

-- Opcodes of reliable connections and of datagrams.
local SEND_FIRST, SEND_ONLY, SEND_ONLY_IMM = 0x00, 0x04, 0x05
local WRITE_LAST_IMM, WRITE_ONLY_IMM, UD_SEND_IMM = 0x09, 0x0b, 0x65

ripc:register_heuristic("infiniband.payload", function(buf, pinfo, root)
	local opcode, immediate, padding = ib_opcode(), ib_immediate(), ib_padding()

	opcode = opcode and opcode.value
	padding = padding and padding.value or 0
	if buf:len() <= padding then
		return false
	end
	buf = buf(0, buf:len() - padding):tvb()
	if opcode == SEND_ONLY then
		return message_heuristic(buf, pinfo, root)
	end
	if opcode == SEND_FIRST then
		is_first = true
		local found = looks_like_message(buf) and message_heuristic(buf, pinfo, root)
		is_first = false
		return found
	end
	if not immediate then
		return false
	end
	if opcode == SEND_ONLY_IMM then
		-- The first four bytes of the message are the immediate data.
		local bytes = immediate.range:bytes()
		bytes:append(buf:bytes())
		return message_heuristic(bytes:tvb("Message of libripc"), pinfo, root)
	end
	if opcode == WRITE_LAST_IMM or opcode == WRITE_ONLY_IMM then
		return immediate_write(buf, pinfo, root, immediate.range)
	end
	return false
end)

local udp_length, ib_lrh = Field.new("udp.length"), Field.new("infiniband.lrh")

-- Wireshark gives the payload of a datagram with immediate data to nobody: it is read when all
-- else is done. It ends before the padding and the CRCs.
local function ib_datagram(pinfo, root)
	local opcode, immediate, padding, length = ib_opcode(), ib_immediate(), ib_padding(), udp_length()

	if not immediate or opcode.value ~= UD_SEND_IMM then
		return
	end
	local at, finish = immediate.offset + 4, immediate.source:len() - (ib_lrh() and 2 or 0)
	if length then
		finish = math.min(finish, length.offset - 4 + length.value)
	end
	local len = finish - 4 - padding.value - at
	if len <= 0 then
		return
	end
	local buf = immediate.source(at, len):tvb()
	if looks_elided_datagram(buf) then
		elided_datagram(buf, pinfo, root)
	elseif looks_like_message(buf) and buf(4, 2):le_uint() == 1 then
		ripc.dissector(buf, pinfo, root)
	end
end

---- Resolver ------------------------------------------------------------------------------------------------------------------

local resolver = Proto("ripc_resolver", "libripc resolver")
local r = resolver.fields
r.kind = ProtoField.uint8("ripc_resolver.kind", "Kind", base.DEC, resolver_kinds)
r.version = ProtoField.uint8("ripc_resolver.version", "Version")
r.flags = ProtoField.uint8("ripc_resolver.flags", "Flags", base.HEX)
r.verdict = ProtoField.bool("ripc_resolver.flags.verdict", "Verdict", 8, nil, 0x01)
r.service = ProtoField.uint64("ripc_resolver.service", "Service")
r.nonce = ProtoField.uint64("ripc_resolver.nonce", "Nonce", base.HEX)
r.record = ProtoField.none("ripc_resolver.record", "Record")
r.held = ProtoField.uint64("ripc_resolver.record.service", "Service held")
r.instance = ProtoField.bytes("ripc_resolver.record.instance", "Instance")
r.host = ProtoField.bytes("ripc_resolver.record.host", "Host")
r.generation = ProtoField.uint64("ripc_resolver.record.generation", "Generation")
r.ttl = ProtoField.uint32("ripc_resolver.record.ttl", "May be used (ms)")
r.since = ProtoField.uint32("ripc_resolver.record.since", "Held (ms)")
r.count = ProtoField.uint8("ripc_resolver.record.count", "Addresses", base.DEC, nil, 0x7f)
r.address = ProtoField.bytes("ripc_resolver.record.address", "Address")
r.transport = ProtoField.uint8("ripc_resolver.record.transport", "Transport", base.DEC, transports)
r.named = ProtoField.bool("ripc_resolver.record.named", "A name follows", 8, nil, 0x80)
r.name = ProtoField.string("ripc_resolver.name", "Name", base.UNICODE)
r.more = ProtoField.bool("ripc_resolver.flags.more", "More services follow", 8, nil, 0x02)
r.listed = ProtoField.none("ripc_resolver.listed", "Listed")
r.listed_id = ProtoField.uint64("ripc_resolver.listed.service", "Service")
r.listed_generation = ProtoField.uint64("ripc_resolver.listed.generation", "Generation")
r.listed_since = ProtoField.uint32("ripc_resolver.listed.since", "Held (ms)")
r.place = ProtoField.string("ripc_resolver.record.place", "Place")
r.rest = ProtoField.bytes("ripc_resolver.rest", "Behind the record")
local bad_record = ProtoExpert.new("ripc_resolver.broken", "Breaks the format", expert.group.MALFORMED,
	expert.severity.ERROR)
resolver.experts = { bad_record }

-- The places of an address of iwarp/soft, as far as they are there.
local function add_locations(tree, part)
	local at = 12
	for _ = 1, part:len() >= 12 and part(1, 1):uint() or 0 do
		if part:len() - at < 10 then
			return
		end
		local size = part(at, 1):uint() == 6 and 22 or 10
		if part:len() - at < size then
			return
		end
		local ip = part(at + 6, size - 6)
		tree:add(r.place, part(at, size), string.format("%s, TCP port %d, UDP port %d",
			tostring(size == 22 and ip:ipv6() or ip:ipv4()), part(at + 2, 2):le_uint(), part(at + 4, 2):le_uint()))
		at = at + size
	end
end

-- The record at an offset. Return: where it ends, nil if it is cut short.
local function add_record(root, buf, at)
	if buf:len() - at < RECORD_LEN then
		return nil
	end
	local tree = root:add(r.record, buf(at))
	local count = buf(at + 56, 1):uint()
	local named = count >= 128
	local finish = at + RECORD_LEN

	tree:add_le(r.held, buf(at, 8))
	tree:add(r.instance, buf(at + 8, 16))
	tree:add(r.host, buf(at + 24, 16))
	tree:add_le(r.generation, buf(at + 40, 8))
	tree:add_le(r.ttl, buf(at + 48, 4))
	tree:add_le(r.since, buf(at + 52, 4))
	tree:add(r.count, buf(at + 56, 1))
	tree:add(r.named, buf(at + 56, 1))
	for _ = 1, count % 128 do
		if buf:len() - finish < 3 then
			return nil
		end
		local len = buf(finish + 1, 2):le_uint()
		if buf:len() - finish - 3 < len then
			return nil
		end
		local transport = buf(finish, 1):uint()
		local sub = tree:add(r.address, buf(finish, 3 + len)):set_text("Address of " ..
			(transports[transport] or "an unknown transport"))
		sub:add(r.transport, buf(finish, 1))
		if transport == 3 and len > 0 then
			add_locations(sub, buf(finish + 3, len))
		end
		finish = finish + 3 + len
	end
	if named then
		if buf:len() - finish < 1 or buf:len() - finish - 1 < buf(finish, 1):uint() then
			return nil
		end
		local len = buf(finish, 1):uint()
		if len > 0 then
			tree:add(r.name, buf(finish + 1, len), buf(finish + 1, len):string(ENC_UTF_8))
		end
		finish = finish + 1 + len
	end
	tree:set_len(finish - at)
	return finish
end

-- The services of a LISTED. Return: where they end, nil if one is cut short.
local function add_listed(root, buf, at)
	while at < buf:len() do
		if buf:len() - at < LISTED_LEN or buf:len() - at - LISTED_LEN < buf(at + 20, 1):uint() then
			return nil
		end
		local len = buf(at + 20, 1):uint()
		local tree = root:add(r.listed, buf(at, LISTED_LEN + len))
		tree:add_le(r.listed_id, buf(at, 8))
		tree:add_le(r.listed_generation, buf(at + 8, 8))
		tree:add_le(r.listed_since, buf(at + 16, 4))
		if len > 0 then
			tree:add(r.name, buf(at + LISTED_LEN, len), buf(at + LISTED_LEN, len):string(ENC_UTF_8))
		end
		at = at + LISTED_LEN + len
	end
	return at
end

---- With keys: codes are shown, not checked, as whoever looks has no key ---------------------------------------------------

local seal = Proto("ripc_seal", "libripc seal")
local s = seal.fields
s.version = ProtoField.uint8("ripc_seal.version", "Version")
s.key = ProtoField.bytes("ripc_seal.key", "Id of the key")
s.instance = ProtoField.bytes("ripc_seal.instance", "Sender")
s.time = ProtoField.absolute_time("ripc_seal.time", "Its clock", base.UTC)
s.number = ProtoField.uint64("ripc_seal.number", "Number")
s.code = ProtoField.bytes("ripc_seal.code", "Code")
local bad_seal = ProtoExpert.new("ripc_seal.broken", "Breaks the format", expert.group.MALFORMED, expert.severity.ERROR)
seal.experts = { bad_seal }

local function looks_like_seal(buf)
	return buf:len() >= SEAL_HEAD + CODE_LEN and buf(0, 4):string() == "RIPS"
end

function seal.dissector(buf, pinfo, root)
	if not looks_like_seal(buf) then
		return 0
	end
	local len = buf:len() - SEAL_HEAD - CODE_LEN
	local ms = buf(32, 8):le_uint64()
	local tree = root:add(seal, buf())

	tree:add(s.version, buf(4, 1))
	tree:add(s.key, buf(8, 8))
	tree:add(s.instance, buf(16, 16))
	tree:add(s.time, buf(32, 8), NSTime.new((ms / 1000):tonumber(), (ms % 1000):tonumber() * 1000000))
	tree:add_le(s.number, buf(40, 8))
	tree:add(s.code, buf(SEAL_HEAD + len, CODE_LEN))
	tree:append_text(", key " .. tostring(buf(8, 8):bytes()):lower())
	if len == 0 or resolver.dissector(buf(SEAL_HEAD, len):tvb(), pinfo, root) == 0 then
		tree:add_proto_expert_info(bad_seal, "There is no message of the resolver in it")
	else
		pinfo.cols.info:append(", sealed")
	end
	return buf:len()
end

local confirm = Proto("ripc_confirm", "libripc confirmation of a lane")
confirm.fields.version = ProtoField.uint32("ripc_confirm.version", "Version")
confirm.fields.code = ProtoField.bytes("ripc_confirm.code", "Code")

confirm:register_heuristic("iwarp_ddp_rdmap", function(buf, pinfo, root)
	if buf:len() ~= CONFIRM_LEN or buf(0, 4):string() ~= "RIPK" then
		return false
	end
	local tree = root:add(confirm, buf())
	tree:add_le(confirm.fields.version, buf(4, 4))
	tree:add(confirm.fields.code, buf(8, CODE_LEN))
	pinfo.cols.protocol = "RIPC"
	pinfo.cols.info:set("CONFIRM of the set-up with keys")
	return true
end)

local function looks_like_resolver(buf)
	return buf:len() >= RESOLVER_LEN and buf(0, 4):string() == "RIPR"
end

function resolver.dissector(buf, pinfo, root)
	if not looks_like_resolver(buf) then
		return 0
	end
	local tree = root:add(resolver, buf())
	local kind = resolver_kinds[buf(5, 1):uint()] or "?"
	local service = buf(8, 8):le_uint64()

	tree:add(r.version, buf(4, 1))
	tree:add(r.kind, buf(5, 1))
	local flags = tree:add(r.flags, buf(6, 1))
	flags:add(r.verdict, buf(6, 1))
	flags:add(r.more, buf(6, 1))
	tree:add_le(r.service, buf(8, 8))
	tree:add_le(r.nonce, buf(16, 8))
	tree:append_text(string.format(", %s of service %s", kind, tostring(service)))
	pinfo.cols.protocol = "RIPC-RES"
	pinfo.cols.info:set(string.format("%s of service %s", kind, tostring(service)))
	local finish = add_record(tree, buf, RESOLVER_LEN)
	if finish and kind == "LISTED" then
		finish = add_listed(tree, buf, finish)
	end
	if not finish then
		tree:add_proto_expert_info(bad_record, "The record is cut short")
	elseif finish < buf:len() then
		-- A signature, say, of a version to come.
		tree:add(r.rest, buf(finish))
	end
	return buf:len()
end

-- Sealed or not, both go to the same port.
local port = Proto("ripc_port", "libripc resolver's port")
function port.dissector(buf, pinfo, root)
	return (looks_like_seal(buf) and seal or resolver).dissector(buf, pinfo, root)
end
DissectorTable.get("udp.port"):add(7475, port)
seal:register_heuristic("udp", function(buf, pinfo, root)
	return looks_like_seal(buf) and seal.dissector(buf, pinfo, root) > 0
end)
-- Answers go to any port, and so do short messages by datagram.
resolver:register_heuristic("udp", function(buf, pinfo, root)
	return looks_like_resolver(buf) and resolver.dissector(buf, pinfo, root) > 0
end)
ripc:register_heuristic("udp", function(buf, pinfo, root)
	if looks_elided_datagram(buf) then
		elided_datagram(buf, pinfo, root)
		return true
	end
	-- Datagrams always name their instance.
	return looks_like_message(buf) and buf(4, 2):le_uint() == 1 and message_heuristic(buf, pinfo, root)
end)

---- Set-up of a lane ----------------------------------------------------------------------------------------------------------

local hello = Proto("ripc_hello", "libripc lane set-up")
local h = hello.fields
h.version = ProtoField.uint8("ripc_hello.version", "Version")
h.refusal = ProtoField.uint8("ripc_hello.refusal", "Refusal", base.DEC, refusals)
h.instance = ProtoField.bytes("ripc_hello.instance", "Instance")
h.target = ProtoField.bytes("ripc_hello.target", "Target instance")
h.send_max = ProtoField.uint32("ripc_hello.send_max", "Largest send it takes")
h.recv_depth = ProtoField.uint32("ripc_hello.recv_depth", "Receive buffers")
h.window = ProtoField.uint32("ripc_hello.service_window", "Window of a service (64 bytes)")
h.caps = ProtoField.uint32("ripc_hello.caps", "Capabilities", base.HEX)
h.epoch = ProtoField.uint64("ripc_hello.epoch", "Epoch of its dedup window for the other side")
h.auth = ProtoField.uint8("ripc_hello.auth", "Proof", base.DEC, { [0] = "none", [1] = "follows" })
h.key = ProtoField.bytes("ripc_hello.key", "Id of the key")
h.proof_nonce = ProtoField.bytes("ripc_hello.nonce", "Nonce")
h.code = ProtoField.bytes("ripc_hello.code", "Code")
h.may_read = ProtoField.bool("ripc_hello.caps.read", "The other side may read", 32, nil, 0x4)
h.may_write = ProtoField.bool("ripc_hello.caps.write", "The other side may write", 32, nil, 0x8)
h.may_map = ProtoField.bool("ripc_hello.caps.map", "Buffers may be mapped", 32, nil, 0x400)
h.standing_grant = ProtoField.bool("ripc_hello.caps.standing_grant", "STANDING_GRANT is understood", 32,
	nil, 0x1000)
h.datagram_context = ProtoField.bool("ripc_hello.caps.datagram_context",
	"DATAGRAM_CONTEXT is understood", 32, nil, 0x4000)
h.immediate = ProtoField.bool("ripc_hello.caps.immediate", "Writes with immediate data are understood",
	32, nil, 0x8000)
h.flow_end = ProtoField.bool("ripc_hello.caps.flow_end", "FLOW_END is understood", 32, nil, 0x20000)

-- Wireshark's MPA hands its private data to nobody: they are looked at when all else is done.
local private_data = Field.new("iwarp_mpa.privatedata")

function hello.dissector(_, pinfo, root)
	ib_datagram(pinfo, root)
	for _, info in ipairs({ private_data() }) do
		local buf = info.range
		-- In revision 2, four bytes of depths come first.
		for _, at in ipairs({ 4, 0 }) do
			if buf:len() - at >= HELLO_LEN and buf(at, 4):string() == "RIPC" then
				local p = buf(at, HELLO_LEN)
				local tree = root:add(hello, p)
				tree:add(h.version, p(4, 1))
				tree:add(h.refusal, p(5, 1))
				tree:add(h.auth, p(6, 1))
				tree:add(h.instance, p(8, 16))
				tree:add(h.target, p(24, 16))
				tree:add_le(h.send_max, p(40, 4))
				tree:add_le(h.recv_depth, p(44, 4))
				tree:add_le(h.window, p(48, 4))
				local caps = tree:add_le(h.caps, p(52, 4))
				for _, bit in ipairs({ h.may_read, h.may_write, h.may_map, h.standing_grant,
					h.datagram_context, h.immediate, h.flow_end }) do
					caps:add_le(bit, p(52, 4))
				end
				tree:add_le(h.epoch, p(56, 8))
				if p(6, 1):uint() == 1 and buf:len() - at >= HELLO_LEN + PROOF_LEN then
					local proof = buf(at + HELLO_LEN, PROOF_LEN)
					tree:add(h.key, proof(0, 8))
					tree:add(h.proof_nonce, proof(8, 16))
					tree:add(h.code, proof(24, CODE_LEN))
				end
				pinfo.cols.info:append(", libripc set-up" .. (p(5, 1):uint() ~= 0 and
					", refused: " .. (refusals[p(5, 1):uint()] or "?") or ""))
				break
			end
		end
	end
end
register_postdissector(hello)
