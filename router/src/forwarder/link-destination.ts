import { type Channel, type FrameView, LinkUnderlay, type Underlay, writeFrame } from "@sallyport/wire";
import type { Forward } from "./circuit.ts";
import { CountedOutput, type LinkCounters, linkCounters } from "./counted-output.ts";
import { OutputDestination, type TransitMemory } from "./output-destination.ts";

/** A link as the forwarder sees it: established, verified, and owned by the link registry. */
export interface LinkPort {
  readonly id: string;
  readonly channel: Channel;
}

/** Acknowledgements are small and never held back; only a connection that takes nothing at all for long gets this full. */
const MAX_ACK_BACKLOG = 8 * 1024 * 1024;

/**
 * A link as the destination of circuits. Frames are copied from where they were read straight into the output of one of
 * its connections with the channel's next sequence number; everything else stays as the sender wrote it, the time of
 * sending (2260) included (docs/protocol/data-path.md, "Forwarding").
 */
export class LinkDestination extends OutputDestination {
  readonly kind = "link" as const;
  readonly port: LinkPort;
  readonly counters: LinkCounters = linkCounters();
  #outputs: CountedOutput[] = [];

  constructor(port: LinkPort, memory: TransitMemory) {
    super(memory);
    this.port = port;
  }

  get address(): string {
    return this.port.id;
  }

  outputFor(forward: Forward): CountedOutput | undefined {
    const known = forward.output;
    if (known !== undefined && !known.underlay.isClosed && this.#outputs.includes(known)) return known;
    const channel = this.port.channel;
    if (channel.isClosed) return undefined;
    forward.output = this.#fair(channel.underlayFor(forward.circuit.key));
    return forward.output;
  }

  ack(frame: FrameView, forward: Forward): void {
    this.#writeNow(frame, forward);
  }

  control(frame: FrameView, forward: Forward): void {
    this.#writeNow(frame, forward);
  }

  write(frame: FrameView, underlay: Underlay): void {
    writeFrame(frame, underlay);
  }

  #writeNow(frame: FrameView, forward: Forward): void {
    const channel = this.port.channel;
    if (channel.isClosed) return;
    let underlay: Underlay | undefined;
    for (const candidate of channel.underlays) if (candidate.type === LinkUnderlay.Ack) underlay = candidate;
    underlay ??= this.outputFor(forward)?.underlay;
    if (underlay === undefined) return;
    if (underlay.output.pending > MAX_ACK_BACKLOG) return;
    writeFrame(frame, underlay);
  }

  #fair(underlay: Underlay): CountedOutput {
    for (const output of this.#outputs) if (output.underlay === underlay) return output;
    const made = new CountedOutput(underlay, this.counters);
    this.#outputs = this.#outputs.filter((output) => !output.underlay.isClosed);
    this.#outputs.push(made);
    return made;
  }
}
