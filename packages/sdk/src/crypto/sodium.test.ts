import { describe, expect, it } from "vitest";
import { loadSodium } from "./load-sodium.ts";
import { nativeSodium } from "./native.ts";
import { type KeyPair, MESSAGE_OVERHEAD } from "./sodium.ts";
import { wasmSodium } from "./wasm.ts";

const hex = (text: string) => Buffer.from(text, "hex");
const counting = (from: number, length: number) => Buffer.from(Array.from({ length }, (_, index) => from + index));

const dialer: KeyPair = {
  secretKey: counting(0x01, 32),
  publicKey: hex("07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"),
};
const host: KeyPair = {
  secretKey: counting(0x41, 32),
  publicKey: hex("64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466"),
};
const dialerReceives = "15dc283d949cc8b8ff3c5281f78f0480e4308815bfd070b8e733dd3277dcd5c1";
const dialerTransmits = "229fa5a19c7e27f6cb1564fb8a650150d237cc1eac962cf42344b5428138ee3f";

describe.each([
  ["native", async () => nativeSodium()],
  ["wasm", wasmSodium],
] as const)("%s libsodium", (kind, load) => {
  it("derives the published keys for both roles", async () => {
    const sodium = await load();
    expect(sodium.kind).toBe(kind);
    const client = sodium.sessionKeys("client", dialer, host.publicKey);
    const server = sodium.sessionKeys("server", host, dialer.publicKey);
    expect([client.receive.toString("hex"), client.transmit.toString("hex")]).toEqual([
      dialerReceives,
      dialerTransmits,
    ]);
    expect([server.receive.toString("hex"), server.transmit.toString("hex")]).toEqual([
      dialerTransmits,
      dialerReceives,
    ]);
  });

  it("decrypts the published messages and notices a changed byte", async () => {
    const sodium = await load();
    const stream = sodium.decryptor(hex(dialerTransmits), counting(0xa0, 24));
    const [hello, world] = [Buffer.alloc(5), Buffer.alloc(6)];
    expect(stream.decrypt(hex("8695ee070bdb1f24746f883889f7630f2982d5c4b911"), hello)).toBe(true);
    expect(stream.decrypt(hex("9085e06d12e95e712a58addb1d1fa2216ba7cdc5a6027d"), world)).toBe(true);
    expect([hello.toString(), world.toString()]).toEqual(["hello", "world!"]);
    const changed = sodium.decryptor(hex(dialerTransmits), counting(0xa0, 24));
    expect(changed.decrypt(hex("8695ee070bdb1f24746f883889f7630f2982d5c4b912"), hello)).toBe(false);
  });

  it("reads what it wrote, message by message", async () => {
    const sodium = await load();
    const [a, b] = [sodium.createKeyPair(), sodium.createKeyPair()];
    const writer = sodium.encryptor(sodium.sessionKeys("client", a, b.publicKey).transmit);
    const reader = sodium.decryptor(sodium.sessionKeys("server", b, a.publicKey).receive, writer.header);
    for (const size of [0, 1, 15, 16, 17, 16_279]) {
      const plain = Buffer.alloc(size, size);
      const cipher = Buffer.alloc(size + MESSAGE_OVERHEAD);
      writer.encrypt(plain, cipher);
      const out = Buffer.alloc(size);
      expect(reader.decrypt(cipher, out)).toBe(true);
      expect(out.equals(plain)).toBe(true);
    }
  });
});

describe("loadSodium", () => {
  it("prefers the native library", async () => {
    expect((await loadSodium()).kind).toBe("native");
  });
});
