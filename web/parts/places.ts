/** The addresses of the console's pages: a page is below `/@`, every other address is a path of the tree. */

/** The path at which the console is served, without a trailing slash; empty for the root. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '')

/** Prefix of the addresses of paths whose first name begins with `@`. */
const escape = '/@/'

/** The address of the page that shows a folder or file. */
export function addressOf(path: string): string {
  const encoded = path.split('/').map(encodeURIComponent).join('/')
  return path.startsWith('/@') ? escape + encoded.slice(1) : encoded
}

/** Whether the address is that of a folder or file. */
export function isOfTree(address: string): boolean {
  return !/^\/(?:@|%40)/.test(address) || address.startsWith(escape)
}

/** The path of the tree at the address of the browser. */
export function currentPath(): string {
  const address = location.pathname.slice(basePath.length)
  const names = (address.startsWith(escape) ? address.slice(escape.length) : address).split('/')
  return `/${names
    .filter((name) => name !== '')
    .map(decoded)
    .join('/')}`
}

/** The name as it is if it has a faulty percent-escape. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

export function joined(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}

/** The path in the whole tree. `path`: relative to the base folder of the user. */
export function inTree({ base_path: base }: { readonly base_path: string }, path: string): string {
  if (base === '/') return path
  return path === '/' ? base : base + path
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Whether the path is that of the folder or of something in it, at any depth. */
export function isWithin(folder: string, path: string): boolean {
  return folder === '/' || path === folder || path.startsWith(`${folder}/`)
}
