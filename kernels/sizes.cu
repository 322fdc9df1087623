// The sizes that layout.go has: a structure that differs there does not compile.
#define SIZE(name, bytes) static_assert(sizeof(name) == bytes, "layout.go differs")
SIZE(Layer, 24);
SIZE(Block, 16);
SIZE(Fault, 40);
SIZE(Pass, 72);
SIZE(Run, 32);
SIZE(AppendArgs, 96);
SIZE(Tile, 24);
SIZE(AttentionArgs, 136);
SIZE(MergeArgs, 48);
SIZE(DigestPage, 32);
SIZE(DigestArgs, 64);
SIZE(ScrubArgs, 40);
