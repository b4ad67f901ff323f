/**
 * Where the files come from that a page shows: the tree of the user, or a share. Paths are those of the API; in a share
 * they begin with its top.
 */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { basePath, encodedPath, inTree, nameOf } from '../components/places.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

export interface Source {
  readonly kind: 'tree' | 'share'
  /** The path of its first folder, or of its only file. */
  readonly top: string
  /** The name of its top. Empty for the tree. */
  readonly name: string
  /**
   * The URL of the content of a file. The server sends it itself, also if the storage would redirect, and forbids
   * scripts in it. `sign`: the field of the API; empty if no signature is needed.
   */
  readonly previewUrl: (path: string, sign: string) => string
  /** The URL from which the browser saves a file, perhaps straight from its backend. Like `previewUrl`. */
  readonly downloadUrl: (path: string, sign: string) => string
}

/** The tree below the base folder of the user. */
export function treeSource(user: { readonly base_path: string }): Source {
  const signedUrl = (kind: 'd' | 'p', path: string, sign: string) => {
    const query = sign === '' ? '' : `?sign=${encodeURIComponent(sign)}`
    return `${basePath}/${kind}${encodedPath(inTree(user, path))}${query}`
  }
  return {
    kind: 'tree',
    top: '/',
    name: '',
    previewUrl: (path, sign) => signedUrl('p', path, sign),
    downloadUrl: (path, sign) => signedUrl('d', path, sign),
  }
}

/** The share at `top`, such as `/@s/ID`. */
export function shareSource(top: string, name: string): Source {
  const url = (path: string) => {
    const code = folderPasswords.of(top)
    const query = code === '' ? '' : `?pwd=${encodeURIComponent(code)}`
    return `${basePath}/sd/${encodedPath(nameOf(top) + path.slice(top.length))}${query}`
  }
  return { kind: 'share', top, name, previewUrl: url, downloadUrl: url }
}

/** The source of everything in the page below. By default the whole tree. */
export const ShownSource = createContext(treeSource({ base_path: '/' }))

export function useSource(): Source {
  return useContext(ShownSource)
}

/** The name of a folder or file of the source; `home` for the top of the tree. */
export function nameIn({ top, name }: Source, path: string, home: string): string {
  return path === top ? name || home : nameOf(path)
}
