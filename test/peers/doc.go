// Package peers holds this project's wire formats against the programs that
// others run: libzmq through pyzmq, msgspec as vLLM uses it, frames laid out
// as SGLang lays them out, and Mooncake's transfer engine; and what it makes of a
// model file against the tokenizers package, jinja2 and numpy in float64.
//
// It has tests only. They make a Python environment of their own under the
// user's cache folder, with the packages that requirements*.txt pin, and fail
// where that cannot be done, saying what to install. The product needs none of
// it.
package peers
