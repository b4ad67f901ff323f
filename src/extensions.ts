/** Kinds of files as settings name them: by lists of extensions. */

/** Comma-separated, without dots. */
export function extensionsOf(list: string): string[] {
  return list
    .toLowerCase()
    .split(',')
    .map((extension) => extension.trim())
    .filter((extension) => extension !== '')
}

/** What follows the last dot, in lower case; empty without one. `.gitignore` is all extension. */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot + 1).toLowerCase()
}
