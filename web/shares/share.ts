/** Shares as forms change them, and their links. */
import type { Data } from '../api/client.ts'
import { ShareMode } from '../api/schema.ts'
import { linesOf } from '../components/form-values.ts'
import { addressOf, basePath, nameOf, topOfShare } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'files', 'shares')

export type Share = Data<'/api/share/list'>['content'][number]

/** What a form changes. Numbers are texts as they are typed; empty: no limit. */
export interface EditedShare {
  readonly mode: ShareMode
  readonly code: string
  readonly expires: string | null
  readonly visits: string
  readonly remark: string
  readonly header: string
  readonly readme: string
  readonly megabytes: string
  readonly files: string
  readonly webdav: boolean
  /** Networks, one in each line. */
  readonly networks: string
  /** The id of the share. Empty: a random one. */
  readonly id: string
}

const megabyte = 1e6

/** What the form of a share shows. Absent: a new one. */
export function editedShare(share?: Share): EditedShare {
  return {
    mode: share?.mode ?? ShareMode.read,
    code: share?.pwd ?? '',
    expires: share?.expires ?? null,
    visits: limitText(share?.max_accessed),
    remark: share?.remark ?? '',
    header: share?.header ?? '',
    readme: share?.readme ?? '',
    megabytes: limitText((share?.upload_max_bytes ?? 0) / megabyte),
    files: limitText(share?.upload_max_files),
    webdav: share?.webdav ?? false,
    networks: share?.allow_from.join('\n') ?? '',
    id: share?.id ?? '',
  }
}

/** The fields of a request, without the id. */
export function sentShare(edited: EditedShare) {
  const { mode, code, expires, visits, remark, header, readme, megabytes, files, webdav, networks } = edited
  const takesUploads = mode !== ShareMode.read
  return {
    mode,
    pwd: code,
    expires,
    max_accessed: Number(visits),
    remark,
    header,
    readme,
    upload_max_bytes: takesUploads ? Math.round(Number(megabytes) * megabyte) : 0,
    upload_max_files: takesUploads ? Number(files) : 0,
    webdav: webdav && mode !== ShareMode.upload,
    allow_from: linesOf(networks),
  }
}

function limitText(limit = 0): string {
  return limit > 0 ? String(limit) : ''
}

/** The link of the share: the server, and the rest. */
export function shareLink({ id }: Pick<Share, 'id'>): { readonly server: string; readonly path: string } {
  return { server: location.origin + basePath, path: addressOf(topOfShare(id)) }
}

/** The names of what is shared: `photos and 2 more`. There are no paths if all are outside the user's base folder. */
export function namesOf(paths: readonly string[]): string {
  const [first] = paths
  if (first === undefined) return texts.shares.outsideBase
  return texts.andMore([nameOf(first) || texts.files.home], paths.length - 1)
}

/** Characters that nobody confuses. There are 32 of them, so that each is as likely as the others. */
const codeCharacters = 'abcdefghijkmnpqrstuvwxyz23456789'
const codeLength = 10

/** A code that nobody guesses, with 50 random bits. */
export function randomCode(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(codeLength))
  const code = Array.from(bytes, (byte) => codeCharacters.charAt(byte % codeCharacters.length)).join('')
  return `${code.slice(0, codeLength / 2)}-${code.slice(codeLength / 2)}`
}
