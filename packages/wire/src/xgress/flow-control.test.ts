import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ackOf } from "../testing/ack-of.ts";
import { ms16 } from "./frames/payload.ts";
import { AckBatch } from "./receive/acknowledgement.ts";
import { Arrival, ReceiveBuffer } from "./receive/receive-buffer.ts";
import { SendBuffer } from "./send/send-buffer.ts";

describe("a sender and a receiver over a network that loses, repeats and reorders", () => {
  it("deliver everything once and in order", () => {
    const step = fc.record({
      drop: fc.boolean(),
      dropAck: fc.boolean(),
      swap: fc.boolean(),
      wait: fc.integer({ max: 300, min: 1 }),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 300 }), (steps, total) => {
        let now = 70_000;
        let produced = 0;
        const sender = new SendBuffer<number>({ txPortalStartSize: 2_000, txPortalMaxSize: 4_000, maxPayloads: 32 });
        const receiver = new ReceiveBuffer<number>({ rxBufferSize: 3_000, maxPayloads: 16 });
        const batch = new AckBatch({ maxSequences: 5, maxBytes: 500 });
        const delivered: number[] = [];
        let wire: { sequence: number; value: number; sentAt: number }[] = [];
        const flush = (lost: boolean) => {
          const sequences = [...batch.sequences.subarray(0, batch.count)];
          const ack = ackOf(sequences, { held: receiver.report(), rtt: batch.rtt });
          batch.clear();
          if (!lost) sender.acknowledge(ack, now);
        };
        const arrive = (packet: { sequence: number; value: number; sentAt: number }, dropAck: boolean) => {
          const verdict = receiver.arrive(packet.sequence, 100);
          if (verdict === Arrival.NoRoom) return;
          if (verdict === Arrival.Early) receiver.keep(packet.sequence, packet.value, 100);
          if (verdict === Arrival.Next) {
            delivered.push(packet.value);
            receiver.release(100);
            for (let next = receiver.takeNext(); next !== undefined; next = receiver.takeNext()) {
              delivered.push(next);
              receiver.release(100);
            }
          }
          if (batch.add(packet.sequence, ms16(packet.sentAt), 100)) flush(dropAck);
        };
        for (let turn = 0; delivered.length < total && turn < 5_000; turn++) {
          const calm = { drop: false, dropAck: false, swap: false, wait: 100 };
          const now_ = turn < 200 ? (steps[turn % steps.length] ?? calm) : calm;
          while (produced < total && sender.canAdd) {
            const value = produced++;
            wire.push({ sequence: sender.add(value, 100, now), value, sentAt: now });
          }
          sender.retransmit(now, (value, sequence) => wire.push({ sequence, value, sentAt: now }) > 0);
          if (now_.swap) wire.reverse();
          wire.forEach((packet, index) => {
            if (!(now_.drop && index % 3 === 0)) arrive(packet, now_.dropAck);
          });
          wire = now_.swap ? wire.slice(0, 2) : [];
          now += now_.wait;
          flush(now_.dropAck);
        }
        expect(delivered).toEqual(Array.from({ length: total }, (_, index) => index));
      }),
      { numRuns: 60 },
    );
  });
});
