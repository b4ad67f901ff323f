/** What the folder of a Local storage contains. */
import { readdir } from 'node:fs/promises'

/** The file by which nodes on PostgreSQL recognize the folder of a storage (docs/drivers/local.md). */
export const marker = '.tidegate-marker'

/** The names of all files below the folder, also of staged ones; without the marker. */
export async function filesBelow(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found.filter((entry) => entry.isFile() && entry.name !== marker).map(({ name }) => name)
}
