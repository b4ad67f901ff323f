/**
 * The addresses of the console's pages: a page is below `/@`, every other address is a path of the tree. So that the
 * server shows the console there, a path whose first name the server or a page uses has an address below `/@/`.
 */

import { serverNames } from '../api/schema.ts'

/** The path at which the console is served, without a trailing slash; empty for the root. */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, '')

/** Prefix of the addresses of paths whose first name is not free. */
const escape = '/@/'

/** What the paths of shares begin with, before the id of the share, in the API and in addresses. */
const shares = '/@s'

/** The top of a share. */
export function topOfShare(id: string): string {
  return `${shares}/${id}`
}

/** The top of the share that the path is in, such as `/@s/ID`; undefined for a path of the tree. */
export function shareTop(path: string): string | undefined {
  return path === shares ? path : /^\/@s\/[^/]*/.exec(path)?.[0]
}

/** Whether the address is that of a share, or of something in one. */
export function isOfShare(address: string): boolean {
  return /^\/(?:@|%40)s(?:\/|$)/.test(address)
}

/** The address of the page that shows a folder or file, of the tree or of a share. */
export function addressOf(path: string): string {
  if (shareTop(path) !== undefined) return shares + encodedPath(path.slice(shares.length))
  const address = encodedPath(path)
  return isFree(path) ? address : escape + address.slice(1)
}

/**
 * The path that a link in a file of the folder leads to, if it leads to a path. A link that begins with a slash begins
 * at `top`, above which no link leads.
 */
export function linked(folder: string, link: string, top = '/'): string | undefined {
  const target = link.replace(/[?#].*$/s, '')
  if (target === '' || /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target) || target.includes('\\')) return undefined
  const names = target.startsWith('/')
    ? []
    : folder
        .slice(top.length)
        .split('/')
        .filter((name) => name !== '')
  for (const name of target.split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(decoded(name))
  }
  // An escape must not add a segment.
  return names.some((name) => /[/\\]|^\.\.?$/.test(name)) ? undefined : names.reduce(joined, top)
}

/** The path with percent-escapes, as URLs have it. */
export function encodedPath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/')
}

/** Whether the first name of the path is used neither by the server nor by a page. */
function isFree(path: string): boolean {
  return !path.startsWith('/@') && !(serverNames as readonly unknown[]).includes(path.split('/', 2)[1])
}

/** Whether the address is that of a folder or file. */
export function isOfTree(address: string): boolean {
  return !/^\/(?:@|%40)/.test(address) || address.startsWith(escape)
}

/** The path of the tree, or of a share, at the address of the browser. */
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

/** The reverse of `inTree`, for a path in the base folder. */
export function fromTree({ base_path: base }: { readonly base_path: string }, path: string): string {
  return base === '/' ? path : path.slice(base.length) || '/'
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

/** The folder and those above it, up to the root. */
export function ancestorsOf(path: string): readonly string[] {
  return path === '/' ? ['/'] : [path, ...ancestorsOf(parentOf(path))]
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Whether the path is that of the folder or of something in it, at any depth. */
export function isWithin(folder: string, path: string): boolean {
  return folder === '/' || path === folder || path.startsWith(`${folder}/`)
}
