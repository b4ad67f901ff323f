/** Passwords of folders that the user has entered, until the page is closed. */

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

  set(path: string, password: string): void {
    passwords.set(path, password)
  },

  clear(): void {
    passwords.clear()
  },
}
