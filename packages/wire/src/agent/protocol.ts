/** Begins every request to an agent (docs/router/observability.md, "The agent"). */
export const AGENT_MAGIC = Buffer.from("010b0a0d0e0c0a0f0e0f00000d", "hex");

/** What a local tool may ask a running process; one byte behind the magic. */
export const AgentOp = {
  Stack: 0x01,
  CollectGarbage: 0x02,
  MemoryStats: 0x03,
  RuntimeVersion: 0x04,
  HeapProfile: 0x05,
  CpuProfile: 0x06,
  Stats: 0x07,
  ExecutionTrace: 0x08,
  ProgramFile: 0x09,
  ApplicationInfo: 0x0a,
  HeapDump: 0x0b,
  GarbagePercent: 0x10,
  LogLevel: 0x11,
  /** An application's id and one byte more; the answer is text. */
  Application: 0x12,
  ChannelLogLevel: 0x13,
  ClearChannelLogLevel: 0x14,
  /** An application's id, then a channel on the same connection. */
  ApplicationChannel: 0x15,
} as const;

/** Levels by their number on the wire. */
export const LOG_LEVELS = ["fatal", "fatal", "error", "warn", "info", "debug", "trace"] as const;

/** What a process answers to {@link AgentOp.ApplicationInfo}. */
export interface ApplicationInfo {
  readonly type: string;
  readonly id?: string;
  readonly version?: string;
  readonly alias?: string;
}

/**
 * Reads a zig-zag number of at most ten bytes at the start of `bytes`.
 *
 * @returns the number and how many bytes it took; `undefined` when it is not complete
 * @throws RangeError when it is longer than any number is
 */
export function readZigZag(bytes: Buffer): { readonly value: number; readonly length: number } | undefined {
  let value = 0n;
  for (let i = 0; i < bytes.length; i++) {
    if (i === 10) throw new RangeError("expected a number of at most ten bytes");
    const byte = bytes[i] as number;
    value |= BigInt(byte & 0x7f) << BigInt(7 * i);
    if (byte < 0x80) return { value: Number((value >> 1n) ^ -(value & 1n)), length: i + 1 };
  }
  return undefined;
}
