/**
 * Keeps the young generation of the heap small: the first import of the program, before anything was loaded.
 *
 * A router allocates nothing per payload, and little per circuit that lives longer than a moment. V8 would still let the
 * nursery grow to 32 MiB and never give it back; measured, a small one costs no time and saves 30 to 60 MiB after some
 * thousand circuits (bench/README.md). Not more than a hint: an engine without the flag ignores it.
 */
import { setFlagsFromString } from "node:v8";

setFlagsFromString("--semi-space-growth-factor=1");
