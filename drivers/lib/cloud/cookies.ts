/** Cookies that an admin has copied from a browser, and what answers of the server make of them. */

export class Cookies {
  private constructor(private readonly values: ReadonlyMap<string, string>) {}

  /**
   * Parses the text of a `Cookie` header as admins paste it: the name of the header, parts without a name, white space
   * and a trailing semicolon are ignored. Of cookies with one name, the last counts.
   */
  static parse(text: string): Cookies {
    const values = new Map<string, string>()
    for (const part of text.replace(/^\s*cookie:/i, '').split(/[;\r\n]/)) {
      const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? []
      if (name !== undefined && value !== undefined) values.set(name, value)
    }
    return new Cookies(values)
  }

  /** The value of a cookie, by its name in any case. */
  get(name: string): string | undefined {
    const wanted = name.toLowerCase()
    return [...this.values].find(([each]) => each.toLowerCase() === wanted)?.[1]
  }

  /** The value of a `Cookie` header; control characters are left out. */
  header(): string {
    return [...this.values]
      .map(([name, value]) => `${name}=${value}`)
      .join('; ')
      .replace(/[^ -~]/g, '')
  }

  /**
   * The cookies after an answer with these `Set-Cookie` headers, of which only those with one of these names count.
   * Undefined if none of them has changed.
   */
  after(setCookie: readonly string[] | undefined, names: readonly string[]): Cookies | undefined {
    const values = new Map(this.values)
    for (const header of setCookie ?? []) {
      const [, name = '', value = ''] = /^\s*([^=;\s]+)=([^;]*)/.exec(header) ?? []
      // An empty value is how servers remove a cookie. A credential that is removed cannot be got back.
      if (names.includes(name) && value !== '' && values.get(name) !== value) values.set(name, value)
    }
    const isChanged = names.some((name) => values.get(name) !== this.values.get(name))
    return isChanged ? new Cookies(values) : undefined
  }
}
