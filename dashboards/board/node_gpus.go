package board

var nodeGPUs = []row{{"GPUs", []panel{
	{
		shape: stack, title: "Memory in use, by whose it is", unit: "bytes", width: 12, height: 8,
		about: "Of engines' processes; of processes that are allowed, that are neither, that cannot be told, and of none that the driver lists.",
		asks:  []ask{{expr: `sum by (owner) (kvwitness_gpu_memory_used_bytes{` + ofNode + `})`, legend: "{{owner}}"}},
	},
	{
		shape: graph, title: "Memory in use, of each GPU", unit: "percentunit", width: 12, height: 8,
		about: "Of the memory of the GPU or MIG instance; absent where the driver did not say who holds it.",
		asks: []ask{{
			expr:   `sum by (gpu, mig) (kvwitness_gpu_memory_used_bytes{` + ofNode + `}) / sum by (gpu, mig) (kvwitness_gpu_memory_bytes{` + ofNode + `})`,
			legend: "{{gpu}} {{mig}}",
		}},
	},
	{
		shape: table, title: "Readable", unit: "bool_yes_no", number: "readable", width: 8, height: 7,
		about: "No where the driver told of the GPU once and does not now.",
		asks:  []ask{{expr: `min by (gpu) (kvwitness_gpu_readable{` + ofNode + `})`, legend: "{{gpu}}"}},
	},
	{
		shape: graph, title: "Errors", unit: "none", width: 8, height: 7,
		about: "XIDs of the last hour, and memory errors since the driver was loaded.",
		asks: []ask{
			{expr: `sum by (gpu, xid) (increase(kvwitness_gpu_xid_errors_total{` + ofNode + `}[1h])) > 0`, legend: "{{gpu}} XID {{xid}}"},
			{expr: `sum by (gpu, errors) (kvwitness_gpu_ecc_errors{` + ofNode + `}) > 0`, legend: "{{gpu}} {{errors}}"},
		},
	},
	{
		shape: graph, title: "The driver", unit: "none", width: 8, height: 7,
		about: "How old its last sample is, the state that it was read in, and how often kvwitness-nvml was started anew.",
		asks: []ask{
			{expr: `max(kvwitness_driver_sample_age_seconds{` + ofNode + `})`, legend: "seconds since its last sample"},
			{expr: `sum by (state) (kvwitness_driver_state{` + ofNode + `}) == 1`, legend: "{{state}}"},
			{expr: `sum(increase(kvwitness_driver_helper_starts_total{` + ofNode + `}[1h]))`, legend: "starts in an hour"},
		},
	},
	{
		shape: graph, title: "What pools could hold at most", unit: "suffix:tokens", width: 24, height: 7,
		about: "Tokens, if an engine's pools had all memory of its GPUs but what others hold there, beside its context: a longer context can never be served.",
		asks: []ask{
			{expr: `max by (engine) (kvwitness_gpu_capacity_tokens{` + ofNodeEngine + `})`, legend: "{{engine}} could hold"},
			{expr: `max by (engine, which) (kvwitness_context_tokens{` + ofNodeEngine + `})`, legend: "{{engine}} context, {{which}}"},
		},
	},
	{
		shape: graph, title: "Copied by the driver, into and out of pools", unit: "Bps", width: 16, height: 7,
		about: "Where watch_cuda_copies is on: at least so much. Engines copy pages themselves, to offload and to reload them: it is told and not judged.",
		asks:  []ask{{expr: `sum by (engine, direction) (` + per("pool_copied_bytes_total", ofNodeEngine) + `)`, legend: "{{engine}} {{direction}}"}},
	},
	{
		shape: graph, title: "Copies that are not counted", unit: "cps", width: 8, height: 7,
		about: "For which there was no room, whose function is not followed, or of a pool whose size is not known.",
		asks:  []ask{{expr: `sum(` + per("cuda_copies_uncounted_total", ofNode) + `)`, legend: "copies"}},
	},
}}}
