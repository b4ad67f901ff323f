/** Passwords of folders, and codes of shares, that the user has entered, until the page is closed. */
import { headerText } from '../api/client.ts'
import { shareTop } from '../components/places.ts'

const passwords = new Map<string, string>()

export const folderPasswords = {
  /**
   * The password of the nearest folder, upwards, for which one was entered; empty if there is none. In a share, its
   * code, and never the password of a folder of the tree.
   */
  of(path: string): string {
    const share = shareTop(path)
    if (share !== undefined) return passwords.get(share) ?? ''
    for (let folder = path; folder !== ''; folder = folder.slice(0, folder.lastIndexOf('/'))) {
      const password = passwords.get(folder)
      if (password !== undefined) return password
    }
    return passwords.get('/') ?? ''
  },

  /** Like `of`, for the header `Password`. */
  headerOf(path: string): string {
    return headerText(folderPasswords.of(path))
  },

  set(path: string, password: string): void {
    passwords.set(shareTop(path) ?? path, password)
  },

  clear(): void {
    passwords.clear()
  },
}
