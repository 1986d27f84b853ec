/** Settings of the forwarder; all times in milliseconds. The names are those of the `forwarder` section of router.yml. */
export interface ForwarderOptions {
  /** How often forwarding faults are reported; 0: never. */
  faultTxIntervalMs: number;
  /** A circuit without a frame for this long is put to its controller for confirmation. */
  idleCircuitTimeoutMs: number;
  /** How often idle circuits are looked for; 0: never. */
  idleTxIntervalMs: number;
  /** How often, and after how much silence, a circuit that was unrouted with now = false ends. */
  xgressCloseCheckIntervalMs: number;
  /** Waiting time before each egress dial. */
  xgressDialDwellTimeMs: number;
  /** Egress dials that may wait for a worker. */
  xgressDialQueueLength: number;
  /** Egress dials at the same time. */
  xgressDialWorkerCount: number;
  /** Memory that transit payloads waiting for room on a link may hold together, in bytes. */
  transitBufferBytes: number;
  /** Memory for payloads of the circuits that end here, all together, in bytes. */
  circuitMemoryBytes: number;
}

/** The bound of {@link ForwarderOptions.transitBufferBytes} that no file sets. */
export const TRANSIT_BUFFER_BYTES = 64 * 1024 * 1024;
