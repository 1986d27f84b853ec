import { EndToEnd, KEY_BYTES, type Sodium } from "@sallyport/sdk";
import { PeerData, RouteErrorCode } from "@sallyport/wire";
import { EgressError } from "../forwarder/egress.ts";

/** The public key that the dialling end of a circuit sent along; undefined when it asks for no encryption. @throws EgressError */
export function dialerKeyOf(peerData: ReadonlyMap<number, Buffer>): Buffer | undefined {
  const key = peerData.get(PeerData.PublicKey);
  if (key === undefined || key.length === KEY_BYTES) return key;
  const text = `expected a public key of ${KEY_BYTES} bytes from the dialling end, got ${key.length}`;
  throw new EgressError(RouteErrorCode.Generic, text);
}

/** The host's side of the encryption with a dialling end, with a key pair of its own, whose public half goes into `answer`. */
export function encryptionWith(sodium: Sodium, dialerKey: Buffer, answer: Map<number, Buffer>): EndToEnd {
  const own = sodium.createKeyPair();
  answer.set(PeerData.PublicKey, own.publicKey);
  return new EndToEnd({ sodium, keys: sodium.sessionKeys("server", own, dialerKey) });
}
