import {
  EdgeHeader,
  Headers,
  type Message,
  PayloadHeader,
  XgressFlag,
  XgressHeader,
  XgressType,
} from "@sallyport/wire";
import type { TestSdk } from "./test-sdk.ts";

const CAPABILITIES = XgressHeader.FirstPayloadHeader + PayloadHeader.Capabilities;
const EOF_KNOWN = Buffer.from("00000100", "hex");

/** One end of a circuit by hand: what an SDK that does its own flow control sends and gets. */
export class FlowEnd {
  readonly sdk: TestSdk;
  readonly connId: number;
  readonly circuitId: string;
  readonly side: number;
  #next = 0;

  constructor(sdk: TestSdk, connId: number, circuitId: string, isTerminator = false) {
    this.sdk = sdk;
    this.connId = connId;
    this.circuitId = circuitId;
    this.side = isTerminator ? XgressFlag.Terminator : 0;
  }

  payload(body: string, o: { flags?: number; capabilities?: boolean; connId?: boolean } = {}): void {
    const headers = new Headers();
    if (o.connId !== false) headers.setU32(EdgeHeader.ConnId, this.connId);
    headers
      .setString(XgressHeader.CircuitId, this.circuitId)
      .setU64(XgressHeader.Sequence, BigInt(this.#next++))
      .setU32(XgressHeader.Flags, (o.flags ?? 0) | this.side);
    if (o.capabilities === true) headers.set(CAPABILITIES, EOF_KNOWN);
    this.sdk.channel.send({ contentType: XgressType.Payload, headers, body: Buffer.from(body) });
  }

  start(): void {
    this.payload("", { flags: XgressFlag.CircuitStart, capabilities: true });
  }

  /** Acknowledges without a connection id, as SDKs in the field do. */
  ack(sequence: number): void {
    const body = Buffer.alloc(4);
    body.writeInt32BE(sequence);
    const headers = new Headers()
      .setString(XgressHeader.CircuitId, this.circuitId)
      .setU32(XgressHeader.ReceiveBufferSize, 0)
      .setU32(XgressHeader.Flags, this.side);
    this.sdk.channel.send({ contentType: XgressType.Acknowledgement, headers, body });
  }

  end(): void {
    this.sdk.channel.send({ contentType: XgressType.Close, body: Buffer.from(this.circuitId) });
  }

  async next(contentType: number): Promise<Message> {
    for (;;) {
      const message = await this.sdk.nextMessage();
      if (message.contentType !== contentType) continue;
      const connId = message.headers.getU32(EdgeHeader.ConnId);
      if (connId !== this.connId) throw new Error(`a message for connection ${connId}, not ${this.connId}`);
      return message;
    }
  }

  /** The next payload with a body. */
  async text(): Promise<string> {
    for (;;) {
      const { body } = await this.next(XgressType.Payload);
      if (body.length > 0) return body.toString();
    }
  }
}
