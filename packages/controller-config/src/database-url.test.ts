import { describe, expect, it } from "vitest";
import { DatabaseUrlError, parseDatabaseUrl } from "./database-url.ts";

describe("parseDatabaseUrl", () => {
  it.each([
    "postgres://u:p@h/d",
    "postgresql://u:p%2F@h:5433/d?sslmode=verify-full",
    "postgres://u:p,q@h/d",
    "postgres:///d",
    "postgres://u@localhost/d?host=%2Frun%2Fpg&port=5433",
    "postgres://u@[::1]:5432/d?target_session_attrs=read-write",
  ])("leaves the URL of one server as it is: %s", (url) => {
    expect(parseDatabaseUrl(url)).toEqual({ connectionString: url, servers: [] });
  });

  const at = (...places: string[]) =>
    places.map((place) => ({ host: place.replace(/:\d+$/, ""), port: Number(/\d+$/.exec(place)?.[0]) }));

  it.each([
    ["postgres://u:p@h1:5432,h2:5433/d", at("h1:5432", "h2:5433"), "postgres://u:p@localhost/d"],
    // As libpq has it: a port in the list belongs to its host.
    ["postgres://h1,h2:5433,h3/d", at("h1:5432", "h2:5433", "h3:5432"), "postgres://localhost/d"],
    ["postgres://u:a@b,c@[::1]:1,[fd00::2]/d", at("::1:1", "fd00::2:5432"), "postgres://u:a@b,c@localhost/d"],
    ["postgres://u@/d?host=h1,h2&port=5433", at("h1:5433", "h2:5433"), "postgres://u@localhost/d"],
    ["postgres://u@/d?host=h1,h2&port=5433,", at("h1:5433", "h2:5432"), "postgres://u@localhost/d"],
    ["postgres://u@/d?host=/run/a,/run/b", at("/run/a:5432", "/run/b:5432"), "postgres://u@localhost/d"],
    ["postgres://u@%2Frun%2Fa,h2/d", at("/run/a:5432", "h2:5432"), "postgres://u@localhost/d"],
    [
      "postgres://h1,h2/d?sslmode=verify-full&target_session_attrs=primary",
      at("h1:5432", "h2:5432"),
      "postgres://localhost/d?sslmode=verify-full&target_session_attrs=primary",
    ],
  ])("%s names several servers", (url, servers, connectionString) => {
    expect(parseDatabaseUrl(url)).toEqual({ connectionString, servers });
  });

  it.each([
    ["mysql://h/d", /^a PostgreSQL URL, postgres:\/\/user:password@host\/database$/],
    ["postgres://u:p @h/d", /^a PostgreSQL URL/],
    ["postgres://u:geheim@h1:0,h2/d", /ports from 1 to 65535: port 1 is none$/],
    ["postgres://u:geheim@h1:5432,h2:65536/d", /port 2 is none$/],
    ["postgres://u:geheim@h1:5432,h2:54x/d", /port 2 is none$/],
    ["postgres://u:geheim@h1,,h3/d", /a name for each host: host 2 has none$/],
    ["postgres://u:geheim@h1,/d", /host 2 has none$/],
    ["postgres://u:geheim@/d?host=h1,h2,h3&port=1,2", /it has 3 hosts and 2 ports$/],
    ["postgres://u:geheim@h1/d?port=1,2", /it has 1 hosts and 2 ports$/],
    ["postgres://u:geheim@h1,::1/d", /IPv6 addresses in brackets/],
    ["postgres://u:geheim@h1,%zz/d", /valid percent-encoding/],
    ["postgres://u:geheim@h1,h2/d?target_session_attrs=any", /is read-write or primary: the controller needs/],
    ["postgres://u:geheim@h1/d?target_session_attrs=standby", /is read-write or primary: the controller needs/],
  ])("refuses %s and says why, without the password", (url, why) => {
    expect(() => parseDatabaseUrl(url)).toThrow(DatabaseUrlError);
    expect(() => parseDatabaseUrl(url)).toThrow(why);
    expect(() => parseDatabaseUrl(url)).not.toThrow(/geheim/);
  });
});
