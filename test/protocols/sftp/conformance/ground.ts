/** The environment of one check: its own session and an empty folder, with the responses of the server as text. */
import type { Duplex } from 'node:stream'
import {
  flags,
  symlinkTypes,
  names,
  noAttributes,
  string,
  types,
  uint32,
  uint64,
  type PacketClient,
  type Answer,
} from '../packet-client.js'

/** The status codes of draft §7, without their common prefix. */
const statuses = [
  'OK',
  'EOF',
  'NO_SUCH_FILE',
  'PERMISSION_DENIED',
  'FAILURE',
  'BAD_MESSAGE',
  'NO_CONNECTION',
  'CONNECTION_LOST',
  'OP_UNSUPPORTED',
]
const flagNames = {
  READ: flags.read,
  WRITE: flags.write,
  APPEND: flags.append,
  CREAT: flags.create,
  TRUNC: flags.truncate,
  EXCL: flags.exclusive,
}
const fileTypes = new Map([
  [0o100000, 'file'],
  [0o040000, 'folder'],
  [0o120000, 'link'],
])
const sessionEnds = 'the session ends'

interface Attributes {
  readonly kind: string
  readonly size: number
  readonly mode: number
  readonly modified: number
}

interface Name {
  readonly name: string
  readonly longName: string
  readonly attributes: Attributes
}

/** The flags of OPEN for a text such as `READ WRITE CREAT`. */
function flagBits(text: string): number {
  const words = text.split(' ').filter((word) => word !== '') as (keyof typeof flagNames)[]
  return words.reduce((sum, word) => sum | flagNames[word], 0)
}

/** Encoded attributes. `times`: seconds of access and of modification. */
export function attributes(of: { size?: number | bigint; owner?: number; mode?: number; times?: number }): Buffer {
  const fields: Buffer[] = []
  let bits = 0
  const add = (bit: number, ...values: readonly Buffer[]) => {
    bits |= bit
    fields.push(...values)
  }
  if (of.size !== undefined) add(1, uint64(of.size))
  if (of.owner !== undefined) add(2, uint32(of.owner), uint32(of.owner))
  if (of.mode !== undefined) add(4, uint32(of.mode))
  if (of.times !== undefined) add(8, uint32(of.times), uint32(of.times))
  return Buffer.concat([uint32(bits), ...fields])
}

export class Ground {
  constructor(
    readonly client: PacketClient<Duplex>,
    readonly folder: string,
    /** Another session, initialized, of a user with all permissions. */
    readonly another: () => Promise<Ground>,
    /** A session that has not sent INIT. */
    readonly unbegun: () => Promise<PacketClient<Duplex>>,
  ) {}

  path(name = ''): string {
    return name === '' ? this.folder : `${this.folder}/${name}`
  }

  /** As `path`, as the field of a request. */
  at(name = ''): Buffer {
    return string(this.path(name))
  }

  // Single requests, with their responses as text

  ask(type: number, ...fields: readonly Buffer[]): Promise<string> {
    return this.#told(this.client.ask(type, ...fields))
  }

  extended(name: string, ...fields: readonly Buffer[]): Promise<string> {
    return this.#told(this.client.extended(name, ...fields))
  }

  /** The status of an OPEN, or `HANDLE`. Closes an opened handle. */
  async opens(name: string, opened: string, made = noAttributes): Promise<string> {
    const answer = await this.#answer(this.client.ask(types.open, this.at(name), uint32(flagBits(opened)), made))
    if (answer?.type === 102) await this.close(answer.body.subarray(4))
    return this.#words(answer)
  }

  write(handle: Buffer, offset: number | bigint, data: string | Buffer): Promise<string> {
    return this.ask(types.write, string(handle), uint64(offset), string(data))
  }

  read(handle: Buffer, offset: number | bigint, length: number): Promise<string> {
    return this.ask(types.read, string(handle), uint64(offset), uint32(length))
  }

  close(handle: Buffer): Promise<string> {
    return this.ask(types.close, string(handle))
  }

  setstat(name: string, to: Buffer): Promise<string> {
    return this.ask(types.setstat, this.at(name), to)
  }

  fsetstat(handle: Buffer, to: Buffer): Promise<string> {
    return this.ask(types.fsetstat, string(handle), to)
  }

  mkdir(name: string, made = noAttributes): Promise<string> {
    return this.ask(names.mkdir, this.at(name), made)
  }

  rmdir(name: string): Promise<string> {
    return this.ask(names.rmdir, this.at(name))
  }

  remove(name: string): Promise<string> {
    return this.ask(names.remove, this.at(name))
  }

  rename(from: string, to: string): Promise<string> {
    return this.ask(names.rename, this.at(from), this.at(to))
  }

  posixRename(from: string, to: string): Promise<string> {
    return this.extended('posix-rename@openssh.com', this.at(from), this.at(to))
  }

  hardLink(from: string, to: string): Promise<string> {
    return this.extended('hardlink@openssh.com', this.at(from), this.at(to))
  }

  /** `target` is stored in the symlink unchanged. */
  symlink(target: string, name: string): Promise<string> {
    return this.ask(symlinkTypes.symlink, string(target), this.at(name))
  }

  readlink(name: string): Promise<string> {
    return this.ask(symlinkTypes.readlink, this.at(name))
  }

  realpath(text: string): Promise<string> {
    return this.ask(names.realpath, string(text))
  }

  // Preparations, which must succeed

  async open(name: string, opened: string, made = noAttributes): Promise<Buffer> {
    return this.client.mustOpen(this.path(name), flagBits(opened), made)
  }

  async openFolder(name = ''): Promise<Buffer> {
    const handle = await this.client.openFolder(this.path(name))
    if (typeof handle === 'number') throw new Error(`OPENDIR was refused with status ${handle}`)
    return handle
  }

  async file(name: string, content: string | Buffer = ''): Promise<void> {
    const status = await this.client.put(this.path(name), content)
    if (status !== 0) throw new Error(`${name} could not be made: status ${status}`)
  }

  async folders(...all: readonly string[]): Promise<void> {
    for (const name of all) {
      const told = await this.mkdir(name)
      if (told !== 'OK') throw new Error(`${name} could not be made: ${told}`)
    }
  }

  // The resulting state

  /** The content in quotes, the length of a long one, or the status of a failed read. */
  async content(name: string): Promise<string> {
    const content = await this.client.get(this.path(name))
    return typeof content === 'number' ? statuses[content]! : quoted(Buffer.from(content))
  }

  /** `file`, `folder`, `link`, or the status. */
  async kind(name: string, type = types.lstat): Promise<string> {
    const found = await this.attributes(name, type)
    return typeof found === 'string' ? found : found.kind
  }

  async size(name: string): Promise<number | string> {
    const found = await this.attributes(name)
    return typeof found === 'string' ? found : found.size
  }

  /** Permission bits in octal. */
  async mode(name: string): Promise<string> {
    const found = await this.attributes(name)
    return typeof found === 'string' ? found : (found.mode & 0o7777).toString(8)
  }

  async modified(name: string): Promise<number | string> {
    const found = await this.attributes(name)
    return typeof found === 'string' ? found : found.modified
  }

  async attributes(name: string, type = names.stat): Promise<Attributes | string> {
    return this.#attributesOf(this.client.ask(type, this.at(name)))
  }

  async attributesOfHandle(handle: Buffer): Promise<Attributes | string> {
    return this.#attributesOf(this.client.ask(types.fstat, string(handle)))
  }

  /** All names by as many READDIRs as necessary, in the order of the responses. */
  async list(name = ''): Promise<readonly Name[]> {
    const handle = await this.openFolder(name)
    const all = await this.rest(handle)
    await this.close(handle)
    return all
  }

  /** The names that READDIR has not yet returned of an open folder. */
  async rest(handle: Buffer): Promise<readonly Name[]> {
    const all: Name[] = []
    for (;;) {
      const { type, body } = await this.client.ask(names.readdir, string(handle))
      if (type !== 104) return all
      all.push(...namesIn(body))
    }
  }

  /** Names except `.` and `..`, sorted, in one line. */
  async listed(name = ''): Promise<string> {
    return sorted(await this.list(name))
  }

  async #attributesOf(asked: Promise<Answer>): Promise<Attributes | string> {
    const answer = await this.#answer(asked)
    return answer?.type === 105 ? attributesAt(answer.body, 0).attributes : this.#words(answer)
  }

  #answer(asked: Promise<Answer>): Promise<Answer | undefined> {
    return Promise.race([asked, this.client.closed.then(() => undefined)])
  }

  async #told(asked: Promise<Answer>): Promise<string> {
    return this.#words(await this.#answer(asked))
  }

  #words(answer: Answer | undefined): string {
    if (!answer) return sessionEnds
    const { type, body } = answer
    if (type === 101) return statuses[body.readUInt32BE(0)] ?? `status ${body.readUInt32BE(0)}`
    if (type === 102) return 'HANDLE'
    if (type === 103) return quoted(body.subarray(4))
    if (type === 104)
      return namesIn(body)
        .map(({ name }) => this.#below(name))
        .join(' ')
    return type === 105 ? 'ATTRS' : type === 201 ? 'EXTENDED_REPLY' : `packet ${type}`
  }

  /** Paths of different servers have different prefixes. */
  #below(path: string): string {
    if (path === this.folder) return '…'
    return path.startsWith(`${this.folder}/`) ? `…${path.slice(this.folder.length)}` : path
  }
}

export function sorted(all: readonly Name[]): string {
  return all
    .map(({ name }) => name)
    .filter((name) => name !== '.' && name !== '..')
    .sort()
    .join(' ')
}

function quoted(bytes: Buffer): string {
  return bytes.length > 40 ? `${bytes.length} bytes` : JSON.stringify(bytes.toString())
}

export function namesIn(body: Buffer): Name[] {
  let at = 4
  const text = () => {
    const length = body.readUInt32BE(at)
    at += 4 + length
    return body.subarray(at - length, at).toString()
  }
  return Array.from({ length: body.readUInt32BE(0) }, () => {
    const name = text()
    const longName = text()
    const { attributes, end } = attributesAt(body, at)
    at = end
    return { name, longName, attributes }
  })
}

/** Attributes of a response, parsed by their flags (draft §5), whichever attributes a server sends. */
function attributesAt(body: Buffer, start: number): { readonly attributes: Attributes; readonly end: number } {
  const bits = body.readUInt32BE(start)
  let at = start + 4
  const next = (bit: number, length: number) => {
    if ((bits & bit) === 0) return undefined
    at += length
    return at - length
  }
  const [size, , mode, times] = [next(1, 8), next(2, 8), next(4, 4), next(8, 8)]
  const all = mode === undefined ? 0 : body.readUInt32BE(mode)
  return {
    attributes: {
      kind: fileTypes.get(all & 0o170000) ?? '?',
      size: size === undefined ? -1 : Number(body.readBigUInt64BE(size)),
      mode: all,
      modified: times === undefined ? -1 : body.readUInt32BE(times + 4),
    },
    end: at,
  }
}
