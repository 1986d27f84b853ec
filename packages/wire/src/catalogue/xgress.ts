/** Characters that the id of a circuit may have. */
export const MAX_CIRCUIT_ID_LENGTH = 128;

/** Content types that carry circuits (docs/protocol/xgress.md "Messages"). */
export const XgressType = {
  Payload: 1100,
  Acknowledgement: 1101,
  Control: 1102,
  Close: 1103,
} as const;

/** Headers of circuit messages; 2000 to 2255 hold the payload's own headers, whose ids are one byte. */
export const XgressHeader = {
  FirstPayloadHeader: 2000,
  LastPayloadHeader: 2255,
  CircuitId: 2256,
  /** u64: the sign-extended int32 sequence. */
  Sequence: 2257,
  /** u32, see `XgressFlag`; left out when 0. */
  Flags: 2258,
  /** u32, acknowledgements: bytes now held by the receiver. */
  ReceiveBufferSize: 2259,
  /** u16: the sender's clock in milliseconds, modulo 65536; acknowledgements echo it. */
  Rtt: 2260,
} as const;

/** Payload headers (added to 2000 on the wire). */
export const PayloadHeader = {
  Uuid: 0,
  /** Capabilities, four bytes, big-endian: see `XgressCapability`. */
  Capabilities: 1,
  /** Flags of the edge Data message, u32: see `EdgeFlag`. */
  EdgeFlags: 16,
} as const;

/** Bits of the flags header. */
export const XgressFlag = {
  CircuitEnd: 1,
  /** Set in everything that the terminating side sends. */
  Terminator: 2,
  CircuitStart: 4,
  Chunk: 8,
  Retransmit: 16,
  /** Half close. Only to a peer that announced that it understands it. */
  Eof: 32,
  /** The receiver cannot deliver any more: stop sending. */
  WriteFailed: 64,
} as const;

/** Bits of the capabilities header. */
export const XgressCapability = { eof: 0x100 } as const;

/** First body byte of a Control message. */
export const XgressControl = { TraceRoute: 1, TraceRouteResponse: 2 } as const;

/** Headers of a Control message. */
export const TraceHeader = {
  HopCount: 20,
  HopType: 21,
  HopId: 22,
  Timestamp: 23,
  UserValue: 24,
  Error: 25,
} as const;
