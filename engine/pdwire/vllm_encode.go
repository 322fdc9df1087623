package pdwire

import "github.com/tinylib/msgp/msgp"

// AppendVLLMTransfer appends the message as msgspec encodes it, with empty
// lists of the optional keys left out.
func AppendVLLMTransfer(dst []byte, t *VLLMTransfer) []byte {
	keys := uint32(8)
	for _, present := range []bool{len(t.LayerNames) > 0, len(t.LayerIndices) > 0, len(t.GroupIndices) > 0} {
		if present {
			keys++
		}
	}
	dst = msgp.AppendMapHeader(dst, keys)
	dst = msgp.AppendString(msgp.AppendString(dst, "remote_hostname"), t.Hostname)
	dst = msgp.AppendInt(msgp.AppendString(dst, "remote_port"), t.Port)
	dst = msgp.AppendInt(msgp.AppendString(dst, "remote_tp_size"), t.TPSize)
	dst = msgp.AppendInt(msgp.AppendString(dst, "remote_tp_rank"), t.TPRank)
	dst = msgp.AppendString(dst, "req_blocks")
	dst = msgp.AppendMapHeader(dst, uint32(len(t.Requests)))
	for _, q := range t.Requests {
		dst = msgp.AppendString(dst, q.ID)
		dst = msgp.AppendArrayHeader(dst, 2)
		dst = msgp.AppendString(dst, q.Transfer)
		dst = msgp.AppendArrayHeader(dst, uint32(len(q.Groups)))
		for _, g := range q.Groups {
			dst = appendList(dst, g, msgp.AppendInt64)
		}
	}
	dst = appendList(msgp.AppendString(dst, "kv_caches_base_addr"), t.BaseAddrs, msgp.AppendUint64)
	dst = appendList(msgp.AppendString(dst, "block_lens"), t.BlockBytes, msgp.AppendUint64)
	dst = appendList(msgp.AppendString(dst, "kv_block_lens"), t.KVBlockBytes, msgp.AppendUint64)
	if len(t.LayerNames) > 0 {
		dst = appendList(msgp.AppendString(dst, "registered_layer_names"), t.LayerNames, msgp.AppendString)
	}
	if len(t.LayerIndices) > 0 {
		dst = appendList(msgp.AppendString(dst, "registered_layer_indices"), t.LayerIndices, msgp.AppendInt64)
	}
	if len(t.GroupIndices) > 0 {
		dst = appendList(msgp.AppendString(dst, "registered_group_indices"), t.GroupIndices, msgp.AppendInt64)
	}
	return dst
}

// AppendVLLMReply appends the answer, without a reason.
func AppendVLLMReply(dst []byte, p *VLLMReply) []byte {
	keys := uint32(1)
	for _, l := range [][]string{p.OK, p.Failed} {
		if l != nil {
			keys++
		}
	}
	dst = msgp.AppendMapHeader(dst, keys)
	dst = msgp.AppendInt(msgp.AppendString(dst, "status"), p.Status)
	if p.OK != nil {
		dst = appendList(msgp.AppendString(dst, "ok_reqs"), p.OK, msgp.AppendString)
	}
	if p.Failed != nil {
		dst = appendList(msgp.AppendString(dst, "err_reqs"), p.Failed, msgp.AppendString)
	}
	return dst
}

func appendList[T any](dst []byte, v []T, add func([]byte, T) []byte) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(v)))
	for _, x := range v {
		dst = add(dst, x)
	}
	return dst
}
