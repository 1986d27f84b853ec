import type { Sodium } from "./sodium.ts";

let loaded: Promise<Sodium> | undefined;

/** Loads the native library, or its WebAssembly build where there is none for this machine. */
export function loadSodium(): Promise<Sodium> {
  loaded ??= import("./native.ts").then(
    (module) => module.nativeSodium(),
    async () => (await import("./wasm.ts")).wasmSodium(),
  );
  return loaded;
}
