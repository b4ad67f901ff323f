/** Passwords of folders that the user has entered, until the page is closed. */
import { headerText } from '../api/client.ts'

const passwords = new Map<string, string>()

export const folderPasswords = {
  /** The password of the nearest folder, upwards, for which one was entered; empty if there is none. */
  of(path: string): string {
    for (let folder = path; folder !== ''; folder = folder.slice(0, folder.lastIndexOf('/'))) {
      const password = passwords.get(folder)
      if (password !== undefined) return password
    }
    return passwords.get('/') ?? ''
  },

  /** As `of`, for the header `Password`. */
  headerOf(path: string): string {
    return headerText(folderPasswords.of(path))
  },

  set(path: string, password: string): void {
    passwords.set(path, password)
  },

  clear(): void {
    passwords.clear()
  },
}
