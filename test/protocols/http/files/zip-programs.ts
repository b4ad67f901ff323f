/** ZIP archives as the programs that people have read them. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const maxBuffer = 64 * 1024 * 1024

/** The programs that `assertReadable` runs. */
export const zipPrograms = ['unzip', 'bsdtar', 'python3'] as const

export interface ListedMember {
  readonly name: string
  readonly size: number
  /** Local time, by the fields of MS-DOS. */
  readonly time: readonly number[]
  /** `st_mode`. */
  readonly mode: number
}

const listing = `
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
broken = archive.testzip() if sys.argv[2] == 'all' else None
if broken: sys.exit('broken: ' + broken)
names = [each.filename for each in archive.infolist()]
if len(set(names)) < len(names): sys.exit('a name occurs twice')
print(json.dumps([
  {'name': each.filename, 'size': each.file_size, 'time': each.date_time, 'mode': each.external_attr >> 16}
  for each in archive.infolist()]))
`

/**
 * Reads every member with each program; with 'unzip' only with that one. Resolves to the members. Rejects with the
 * complaint of a program.
 */
export async function readArchive(file: string, by: 'all' | 'unzip' = 'all'): Promise<readonly ListedMember[]> {
  await run('unzip', ['-tq', file], { maxBuffer })
  if (by === 'all') await run('bsdtar', ['-xOf', file], { maxBuffer, encoding: 'buffer' })
  const { stdout } = await run('python3', ['-c', listing, file, by], { maxBuffer })
  return JSON.parse(stdout) as ListedMember[]
}
