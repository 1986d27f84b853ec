import { describe, expect, it } from "vitest";
import { matchTotp, newTotpSecret, provisioningUrl, totpCode } from "./one-time-codes.ts";

const SECRET = "JBSWY3DPEHPK3PXP";
const AT = 1_700_000_000;
const STEP = Math.floor(AT / 30);
const at = new Date(AT * 1000);

describe("one-time codes", () => {
  it.each([
    ["968785", -2],
    ["822542", -1],
    ["324550", 0],
    ["367665", 1],
    ["870960", 2],
  ])("%s is accepted as the code of step %i", (code, offset) => {
    expect(totpCode(SECRET, new Date((AT + offset * 30) * 1000))).toBe(code);
    expect(matchTotp(SECRET, code, at)).toBe(STEP + offset);
  });

  it.each([
    "656781",
    totpCode(SECRET, new Date((AT - 90) * 1000)),
    "",
    "32455",
    "3245500",
    "324 550",
    "abcdef",
    "٣٢٤٥٥٠",
  ])("%s is not", (code) => {
    expect(matchTotp(SECRET, code, at)).toBeUndefined();
  });

  it("come of secrets of 160 random bits in base32 without padding", () => {
    const made = new Set(Array.from({ length: 100 }, newTotpSecret));
    expect(made.size).toBe(100);
    for (const secret of made) {
      expect(secret).toMatch(/^[A-Z2-7]{32}$/);
      expect(matchTotp(secret, totpCode(secret, at), at)).toBe(STEP);
    }
  });

  it("are announced with the beginning of a long name, so that it fits into a QR code", () => {
    const url = provisioningUrl(SECRET, "net", "😀".repeat(5000));
    expect(url).toContain(`net:${encodeURIComponent("😀".repeat(64))}?`);
    expect(url.length).toBeLessThan(1000);
  });

  it("are announced to apps with issuer and name escaped", () => {
    expect(provisioningUrl(SECRET, "my net", "a:b/c?d&e=ü")).toBe(
      `otpauth://totp/my%20net:a%3Ab%2Fc%3Fd%26e%3D%C3%BC?issuer=my%20net&secret=${SECRET}`,
    );
  });
});
