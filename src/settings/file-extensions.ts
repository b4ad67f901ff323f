/** File extensions, and lists of them in settings. */

/** The extensions of a comma-separated list, in lower case. They have no dots. */
export function extensionsOf(list: string): string[] {
  return list
    .toLowerCase()
    .split(',')
    .map((extension) => extension.trim())
    .filter((extension) => extension !== '')
}

/** The text after the last dot of a name, in lower case; empty without a dot. That of `.gitignore` is `gitignore`. */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot + 1).toLowerCase()
}
