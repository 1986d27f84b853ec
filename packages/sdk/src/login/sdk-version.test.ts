import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { programInfo } from "./login.ts";

it("sessions show the version of the package", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(programInfo().sdkInfo).toEqual({ type: "sallyport-sdk", version });
});
