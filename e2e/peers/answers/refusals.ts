import { it } from "vitest";
import type { Both } from "./ask.ts";

/** Requests that are refused, each for one reason. */
export function refusals(both: () => Both): void {
  it.each(REFUSALS)("refuses %s %s %s", async (method, path, body, { type, anonymous } = {}) => {
    await both().expectSame({
      ...{ method, path },
      ...(body !== undefined && { body }),
      ...(type !== undefined && { type }),
      ...(anonymous && { session: null }),
    });
  });
}

type Refusal = [method: string, path: string, body?: string, more?: { type?: string; anonymous?: boolean }];
const REFUSALS: Refusal[] = [
  ["GET", "/nothing"],
  ["POST", "/summary", "{}"],
  ["PUT", "/services", "{}"],
  ["GET", "/services/none"],
  ["PATCH", "/services/none", '{"name":"x"}'],
  ["DELETE", "/services/none"],
  ["POST", "/services", "{"],
  ["POST", "/services", "[]"],
  ["POST", "/services", "null"],
  ["POST", "/services", '{"name":1,"encryptionRequired":true}'],
  ["POST", "/services", '{"name":"a"}'],
  ["POST", "/services", '{"name":"","encryptionRequired":true}'],
  ["POST", "/services", '{"name":"a","encryptionRequired":true,"terminatorStrategy":"x"}'],
  ["POST", "/services", '{"name":"a","encryptionRequired":true}', { type: "text/html" }],
  ["POST", "/edge-routers", '{"name":"delta"}'],
  ["POST", "/edge-routers", '{"name":"r","cost":65536}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"Some","type":"Dial"}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["x"]}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["@x"]}'],
  ["POST", "/service-policies", '{"name":"p","semantic":"AllOf","type":"Dial","serviceRoles":["#all","#b"]}'],
  ["POST", "/terminators", '{"service":"x","router":"y","binding":"z","address":"a"}'],
  ["POST", "/configs", '{"name":"c","configTypeId":"zz","data":{}}'],
  ["POST", "/authenticators", '{"identityId":"x","method":"magic"}'],
  ["POST", "/authenticate?method=password", '{"username":"nobody","password":"wrong-pass"}', { anonymous: true }],
  ["POST", "/authenticate?method=cert", "{}", { anonymous: true }],
];
