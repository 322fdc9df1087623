package verbs

// statuses are those of enum ibv_wc_status that a write ends with.
var statuses = map[uint32]string{
	2: "local operation", 4: "local protection", 5: "flushed", 9: "remote refused the request", 10: "remote refused the access",
	11: "remote operation", 12: "no answer", 13: "receiver not ready", 21: "general",
}

func statusText(status uint32) string {
	if text, known := statuses[status]; known {
		return text
	}
	return "another"
}
