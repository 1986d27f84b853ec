import { xgressCounters } from "../xgress/counters.ts";
import { FramePool } from "../xgress/frames/frame-pool.ts";
import type { Side, XgressEnd, XgressFabric, XgressPath } from "../xgress/path.ts";
import { AckScheduler, ScanTimer } from "../xgress/timers.ts";

/** A fabric of one circuit: what one end sends, the other gets in the same call, as long as both are there. */
export class JoinedFabric implements XgressFabric {
  readonly pool = new FramePool();
  readonly counters = xgressCounters();
  readonly acks = new AckScheduler();
  readonly scans = new ScanTimer();
  /** Ends that reported that their circuit has ended. */
  readonly reported: Side[] = [];
  readonly #ends: XgressEnd[] = [];

  register(end: XgressEnd): XgressPath {
    this.#ends.push(end);
    const other = () => this.#ends.find((candidate) => candidate !== end && !candidate.gone);
    return {
      isOpen: true,
      wait() {},
      payload: (frame) => other()?.payload(frame),
      retransmit: (frame) => other()?.payload(frame),
      report: () => false,
      ack: (frame) => other()?.ack(frame),
      control: (frame) => other()?.control(frame),
      close: (report) => {
        end.gone = true;
        if (report) this.reported.push(end.side);
      },
    };
  }

  /** Ends the circuit as an Unroute does. */
  close(): void {
    for (const end of this.#ends.filter((candidate) => !candidate.gone)) {
      end.gone = true;
      end.unrouted();
    }
    this.acks.close();
  }
}
