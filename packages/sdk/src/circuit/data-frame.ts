import {
  EdgeHeader,
  EdgeType,
  FRAME_PREFIX_LENGTH,
  HEADER_ENTRY_PREFIX_LENGTH,
  type Output,
  writeFramePrefix,
} from "@sallyport/wire";

/**
 * Reserves a Data frame in a router connection's output and writes all of it but the body, which the caller writes next
 * (docs/protocol/edge.md "Data and ending").
 *
 * @param flags bits of `EdgeFlag`; 0 leaves the header out
 * @returns where in `output.slab` the body belongs
 * @throws ChannelClosedError
 */
export function reserveData(output: Output, connectionId: number, bodyLength: number, flags: number): number {
  const headersLength = HEADER_ENTRY_PREFIX_LENGTH + 4 + (flags === 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + 4);
  const offset = output.reserve(FRAME_PREFIX_LENGTH + headersLength + bodyLength);
  const slab = output.slab;
  let at = writeFramePrefix(slab, offset, EdgeType.Data, output.nextSequence(), headersLength, bodyLength);
  at = writeU32(slab, at, EdgeHeader.ConnId, connectionId);
  return flags === 0 ? at : writeU32(slab, at, EdgeHeader.Flags, flags);
}

function writeU32(buffer: Buffer, at: number, key: number, value: number): number {
  buffer.writeInt32LE(key, at);
  buffer.writeUInt32LE(4, at + 4);
  return buffer.writeUInt32LE(value >>> 0, at + HEADER_ENTRY_PREFIX_LENGTH);
}
