/** The files and empty folders that the user has chosen or dropped. */

export interface Chosen {
  /** Relative to the folder that they were chosen for: `folder/file.txt`. */
  readonly path: string
  /** The file; absent for an empty folder. */
  readonly file?: File
}

/** The files of a chooser. Browsers leave out empty folders. */
export async function* chosenFiles(files: Iterable<File>): AsyncGenerator<Chosen> {
  for (const file of files) yield { path: file.webkitRelativePath || file.name, file }
}

/**
 * What was dropped, and the content of dropped folders, as it is read (File and Directory Entries API). Passes the
 * paths of what cannot be read to `onFailure`, and continues.
 */
export async function* droppedFiles(
  entries: readonly FileSystemEntry[],
  onFailure: (path: string) => void,
): AsyncGenerator<Chosen> {
  const files = await Promise.all(entries.filter(isFile).map((entry) => read(entry, onFailure)))
  for (const chosen of files) if (chosen) yield chosen
  for (const folder of entries.filter(isFolder)) yield* contentOf(folder, onFailure)
}

async function* contentOf(folder: FileSystemDirectoryEntry, onFailure: (path: string) => void): AsyncGenerator<Chosen> {
  const reader = folder.createReader()
  let isEmpty = true
  try {
    // A reader gives the entries in portions, and an empty one at the end.
    for (let entries = await nextEntries(reader); entries.length > 0; entries = await nextEntries(reader)) {
      isEmpty = false
      yield* droppedFiles(entries, onFailure)
    }
    if (isEmpty) yield { path: relativePath(folder) }
  } catch {
    onFailure(relativePath(folder))
  }
}

async function read(entry: FileSystemFileEntry, onFailure: (path: string) => void): Promise<Chosen | undefined> {
  const path = relativePath(entry)
  try {
    return { path, file: await new Promise<File>((resolve, reject) => entry.file(resolve, reject)) }
  } catch {
    onFailure(path)
    return undefined
  }
}

function nextEntries(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject))
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile
}

function isFolder(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory
}

function relativePath({ fullPath }: FileSystemEntry): string {
  return fullPath.slice(1)
}
