/** Numbers of the bits in a controller's mask: headers 12 and 1002 of the hello result (docs/protocol/control.md, "Capabilities"). */
export const ControllerCapability = {
  CreateTerminatorV2: 1,
  SingleRouterLinkSource: 2,
  CreateCircuitV2: 3,
  RouterDataModel: 4,
  /** Control channels of several connections. */
  GroupedControlChannel: 5,
  /** Service tokens are signed JWTs, whatever kind the API session is of. */
  JwtSessions: 6,
  /** Of Sallyport alone: it answers for the circuits of other controllers of its network while these are away. */
  CircuitSuccession: 62,
} as const;

/** Numbers of the bits in a router's mask: header 1002 of its hello to a controller, header 1039 of its result to an SDK. */
export const RouterCapability = {
  /** It opens grouped control channels and uses header numbers from 1000 on. */
  MultiChannel: 1,
  ConnectV2: 2,
  ServiceSubscriptions: 4,
  PostureChecks: 5,
  BindSuccess: 6,
  /** Of the control channel alone: such numbers count down from 64. */
  DataModel: 62,
} as const;

/** What this project's controller announces. */
const ANNOUNCED = [
  ControllerCapability.CreateTerminatorV2,
  ControllerCapability.SingleRouterLinkSource,
  ControllerCapability.CreateCircuitV2,
  ControllerCapability.RouterDataModel,
  ControllerCapability.GroupedControlChannel,
  ControllerCapability.JwtSessions,
];
export const CONTROLLER_CAPABILITIES = capabilityMask(ANNOUNCED);

/** The same of one among several on its network. */
export const SHARED_CAPABILITIES = capabilityMask([...ANNOUNCED, ControllerCapability.CircuitSuccession]);

/** The mask with these bits: an unsigned big-endian number without leading zero bytes; without bits it is empty. */
export function capabilityMask(bits: readonly number[]): Buffer {
  const bytes = Buffer.alloc(bits.length === 0 ? 0 : Math.floor(Math.max(...bits) / 8) + 1);
  for (const bit of bits) {
    const at = bytes.length - 1 - Math.floor(bit / 8);
    bytes[at] = (bytes[at] ?? 0) | (1 << (bit % 8));
  }
  return bytes;
}

/** Is the bit set? A mask may be of any length. */
export function hasCapability(mask: Buffer | undefined, bit: number): boolean {
  const byte = mask?.at(-1 - Math.floor(bit / 8));
  return byte !== undefined && ((byte >> (bit % 8)) & 1) === 1;
}
