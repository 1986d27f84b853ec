/** What the site uses of `marked`, so that types can be checked where its package is not installed yet. */
declare module "marked" {
  export interface Token {
    readonly type: string;
    readonly raw: string;
  }
  export interface Heading extends Token {
    readonly depth: number;
    readonly tokens: Token[];
  }
  export interface Link extends Token {
    readonly href: string;
    readonly title?: string | null;
    readonly tokens: Token[];
  }
  export interface Image extends Token {
    readonly href: string;
    readonly text: string;
  }
  export interface Renderer {
    readonly parser: { parseInline(tokens: Token[]): string };
  }
  export class Marked {
    constructor(extension: {
      renderer: {
        heading?(this: Renderer, token: Heading): string;
        link?(this: Renderer, token: Link): string;
        image?(this: Renderer, token: Image): string;
      };
    });
    parse(markdown: string, options: { async: false }): string;
  }
}
