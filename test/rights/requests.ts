/** How the questions of the model are asked over each protocol, and what each answers to a refusal. */
import type { SFTPWrapper } from 'ssh2'
import { errorResponses as sftpResponses } from '../../protocols/sftp/errors.js'
import { errorResponses as webdavResponses } from '../../protocols/webdav/errors.js'
import type { ErrorCode } from '../../src/base/errors.js'
import { nameOf, parentOf, root, within, type Path } from '../../src/base/path.js'
import { realPath } from './asking.js'
import type { Entry, Question, World } from './model.js'
import type { Visitor } from './running-tree.js'

export type ProtocolName = Question['protocol']

/** Something that the protocol asks the tree for a request. */
export interface Asked {
  readonly question: Question
  /** What the client is told of these refusals instead. 'nothing': the request goes on. */
  readonly told?: Readonly<Partial<Record<ErrorCode, ErrorCode | 'nothing'>>>
}

export interface Reply {
  /** 'done' if it is permitted, or what names the refusal: the name of a failure, or a status. */
  readonly outcome: string
  /** All that the client is told. */
  readonly text: string
}

export interface Request {
  /** What the request asks of the tree, in this order. */
  readonly asked: readonly Asked[]
  /** Asks more of the tree, which is not among `asked`: of the refusals it is only known that there is one. */
  readonly isLoose?: boolean
  /** What the client may be told instead of these refusals, because another question was asked before. */
  readonly instead?: Readonly<Partial<Record<ErrorCode, ErrorCode>>>
  readonly send: (visitor: Visitor) => Promise<Reply>
}

export interface ProtocolUnderTest {
  readonly name: ProtocolName
  /** The question as this protocol can ask it. */
  readonly adapted: (question: Question) => Question
  /** Undefined if the protocol has no such request. `world`: in which what is asked about exists. */
  readonly requestOf: (world: World, question: Question) => Request | undefined
  /** The outcomes of a refusal: several if the answer depends on what else is refused. */
  readonly outcomesOf: (error: ErrorCode, question: Question) => readonly string[]
  /** The names in a folder, sorted; undefined if it is refused. */
  readonly names: (visitor: Visitor, question: Question, path: string) => Promise<readonly string[] | undefined>
}

const content = 'written'

/** The path as its user names it. */
export function ownPath({ users }: World, { user }: Question, path: Path): Path {
  return within(users.find(({ id }) => id === user)?.base ?? root, path) ?? root
}

function kindAt(world: World, path: Path): Entry['kind'] | undefined {
  const real = realPath(world, path, true)
  return real === root ? 'folder' : world.entries.find((each) => each.path === real)?.kind
}

/** The question without what no protocol lets a client choose: other networks and times, and ended credentials. */
function plain(question: Question, protocol: ProtocolName): Question {
  const { user, action, path, to, time, makes, wholeTree, reads, replaces } = question
  return {
    ...{ user, action, path, protocol, time },
    ...(to !== undefined && { to }),
    ...(makes !== undefined && { makes }),
    ...(wholeTree !== undefined && { wholeTree }),
    ...(reads !== undefined && { reads }),
    ...(replaces !== undefined && { replaces }),
  }
}

function seen(question: Question, path: Path): Question {
  const { user, protocol, time, password, readOnly } = question
  return {
    ...{ user, protocol, time, path, action: 'see' },
    ...(password !== undefined && { password }),
    ...(readOnly !== undefined && { readOnly }),
  }
}

// ---- HTTP --------------------------------------------------------------------------------------------------------

/** To look, clients are told to ask for a password. */
const looking = { denied: 'password_required' } as const

async function call(visitor: Visitor, question: Question, path: string, init: RequestInit): Promise<Response> {
  const { password } = question
  const headers = new Headers(init.headers)
  const token = await visitor.token()
  if (token !== '') headers.set('authorization', token)
  if (password !== undefined) headers.set('password', password)
  return fetch(`${visitor.where.url}${path}`, { ...init, headers })
}

async function post(visitor: Visitor, question: Question, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return call(visitor, question, path, { method: 'POST', headers, body: JSON.stringify(body) })
}

async function envelopeReply(response: Response): Promise<Reply> {
  const text = await response.text()
  const { code, error } = JSON.parse(text) as { code: number; error?: string }
  return { outcome: code === 200 ? 'done' : (error ?? String(code)), text }
}

async function statusReply(response: Response): Promise<Reply> {
  return { outcome: response.ok ? 'done' : String(response.status), text: await response.text() }
}

function httpRequestOf(world: World, question: Question): Request | undefined {
  const { action, replaces = false } = question
  const path = ownPath(world, question, question.path)
  const to = question.to === undefined ? undefined : ownPath(world, question, question.to)
  const kind = kindAt(world, question.path)
  const api = (endpoint: string, body: object) => async (visitor: Visitor) =>
    envelopeReply(await post(visitor, question, `/api/fs/${endpoint}`, body))
  switch (action) {
    case 'see':
      return { asked: [{ question, told: looking }], send: api('get', { path }) }
    case 'read':
      if (question.signed !== undefined) return kind === 'file' ? signedRequest(question) : undefined
      if (kind === 'file') {
        const file = { ...question, wholeTree: false }
        const asked = [{ question: seen(question, question.path), told: looking }, { question: file }]
        return { asked, send: api('share_link', { path }) }
      }
      return question.wholeTree === true ? zipRequest(question, path) : undefined
    case 'write':
      if (question.makes !== true) return undefined
      if (kind === undefined && question.time % 2 === 0) return { asked: [{ question }], send: api('mkdir', { path }) }
      return {
        asked: [{ question }],
        send: async (visitor) => {
          const init = { method: 'PUT', headers: { 'file-path': encodeURIComponent(path) }, body: content }
          return envelopeReply(await call(visitor, question, '/api/fs/put', init))
        },
      }
    case 'remove': {
      // What is missing is removed.
      const asked = [{ question, told: { not_found: 'nothing' } as const }]
      return { asked, send: api('remove', { dir: parentOf(path), names: [nameOf(path)] }) }
    }
    case 'rename':
    case 'move':
    case 'copy': {
      if (to === undefined) return undefined
      if (parentOf(path) === parentOf(to)) {
        if (action === 'copy') return undefined
        const send = api('rename', { path, name: nameOf(to), overwrite: replaces })
        if (replaces) return { asked: [{ question }], send }
        // If the source is missing, an existing target is told first.
        const missing = { not_found: 'nothing' } as const
        const target = { question: seen(question, question.to ?? root), told: missing }
        return { asked: [{ question: { ...question }, told: missing }, target, { question }], send }
      }
      if (nameOf(path) !== nameOf(to)) return undefined
      const target = seen(question, question.to ?? root)
      return {
        asked: [
          { question: { ...target, path: parentOf(target.path) } },
          ...(replaces ? [] : [{ question: target, told: { not_found: 'nothing' } as const }]),
          { question },
        ],
        isLoose: true,
        send: api(action, {
          src_dir: parentOf(path),
          dst_dir: parentOf(to),
          names: [nameOf(path)],
          overwrite: replaces,
        }),
      }
    }
    case 'share':
      return undefined
  }
}

/** Whoever has the signature is nobody, and needs no folder password. */
function signedRequest(question: Question): Request {
  return {
    asked: [{ question }],
    send: async ({ where, sign }) =>
      statusReply(await fetch(`${where.url}/d${question.path}?sign=${sign(question.path)}`)),
  }
}

function zipRequest(question: Question, path: Path): Request {
  return {
    asked: [{ question }],
    send: async (visitor) => {
      const response = await post(visitor, question, '/api/fs/zip', { path })
      const { outcome, text } = await statusReply(response)
      return { outcome, text: response.ok ? '' : text }
    },
  }
}

/** The names by which failures are told. */
const names: Readonly<Partial<Record<ErrorCode, string>>> = {
  denied: 'denied',
  hidden: 'password_required',
  password_required: 'password_required',
  not_found: 'not_found',
  parent_missing: 'parent_missing',
}

const http: ProtocolUnderTest = {
  name: 'http',
  adapted(question) {
    const { action, password, signed, path, wholeTree } = question
    const isSigned = action === 'read' && signed === path
    return {
      ...plain({ ...question, wholeTree: action === 'read' && wholeTree === true && !isSigned, reads: false }, 'http'),
      ...(password !== undefined && { password }),
      ...(isSigned && { signed }),
    }
  },
  requestOf: httpRequestOf,
  outcomesOf(error, { action, signed, wholeTree }) {
    if (signed !== undefined) return ['401', '403', '404']
    if (action === 'read' && wholeTree === true) return [error === 'not_found' ? '404' : '403']
    const name = names[error]
    return name === undefined ? [] : [name]
  },
  async names(visitor, question, path) {
    const { code, data } = (await (await post(visitor, question, '/api/fs/list', { path })).json()) as {
      code: number
      data: { content: { name: string }[] } | null
    }
    return code === 200 ? (data?.content ?? []).map(({ name }) => name).sort() : undefined
  },
}

// ---- WebDAV ------------------------------------------------------------------------------------------------------

const lockBody =
  '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>'
const patchBody =
  '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">1</x></D:prop></D:set></D:propertyupdate>'

interface DavRequest {
  readonly method: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

async function sendDav(visitor: Visitor, question: Question, path: string, { method, ...rest }: DavRequest) {
  const authorization = visitor.basic(question.readOnly === true)
  const headers = { ...rest.headers, ...(authorization !== undefined && { authorization }) }
  const init = { method, headers, ...(rest.body !== undefined && { body: rest.body }) }
  const response = await fetch(`${visitor.where.davUrl.slice(0, -1)}${path}`, init)
  return { status: response.status, text: await response.text() }
}

/** The status; for a change with several parts, that of the first that is more than the failure of another one. */
function statusOf({ status, text }: { readonly status: number; readonly text: string }, isChange: boolean): number {
  if (status !== 207 || !isChange) return status
  const parts = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1]))
  return parts.find((each) => each !== webdavFailedDependency) ?? status
}

const webdavFailedDependency = 424

function davRequestOf(world: World, question: Question): Request | undefined {
  const { action } = question
  const path = ownPath(world, question, question.path)
  const request = (asked: readonly Asked[], sent: DavRequest): Request => ({
    asked,
    send: async (visitor) => {
      const reply = await sendDav(visitor, question, path, sent)
      const status = statusOf(reply, action !== 'see' && action !== 'read')
      // A folder has no content.
      const isDone = (status >= 200 && status < 300) || (action === 'read' && status === 405)
      return { outcome: isDone ? 'done' : String(status), text: `${reply.status} ${reply.text}` }
    },
  })
  const one: readonly Asked[] = [{ question }]
  switch (action) {
    case 'see':
      // Whether it may be listed is asked before the body is read.
      return {
        ...request(one, { method: 'PROPFIND', headers: { depth: '0' } }),
        instead: { hidden: 'password_required' },
      }
    case 'read':
      return request(one, { method: 'GET' })
    case 'write': {
      if (question.wholeTree) return request(one, { method: 'LOCK', headers: { depth: 'infinity' }, body: lockBody })
      if (question.makes !== true) {
        // Whether it may be changed is asked before the body is read.
        const asked = [{ question }, { question: seen(question, question.path) }, { question }]
        return request(asked, { method: 'PROPPATCH', body: patchBody })
      }
      const making: readonly DavRequest[] = [
        { method: 'PUT', body: content },
        { method: 'LOCK', headers: { depth: '0' }, body: lockBody },
        { method: 'MKCOL' },
      ]
      const isNew = kindAt(world, question.path) === undefined
      return request(one, making[question.time % (isNew ? 3 : 2)] ?? { method: 'PUT' })
    }
    case 'remove':
      return request(one, { method: 'DELETE' })
    case 'rename':
    case 'move':
    case 'copy':
      if (question.to === undefined) return undefined
      return {
        asked: one,
        send: async (visitor) => {
          const destination = `${visitor.where.davUrl.slice(0, -1)}${ownPath(world, question, question.to ?? root)}`
          const headers = { destination, overwrite: question.replaces === true ? 'T' : 'F' }
          return request(one, { method: action === 'copy' ? 'COPY' : 'MOVE', headers }).send(visitor)
        },
      }
    case 'share':
      return undefined
  }
}

const webdav: ProtocolUnderTest = {
  name: 'webdav',
  adapted(question) {
    const { action, readOnly, wholeTree, user } = question
    return {
      ...plain({ ...question, wholeTree: action === 'write' && wholeTree === true, reads: false }, 'webdav'),
      ...(readOnly === true && user !== guestId && { readOnly }),
    }
  },
  requestOf: davRequestOf,
  outcomesOf(error, { user }) {
    const { status } = webdavResponses[error]
    // Who has no credentials is asked for some.
    if (user === guestId && status === webdavResponses.denied.status)
      return [String(webdavResponses.unauthenticated.status)]
    // As in a missing folder, if the folder is hidden too.
    return error === 'hidden' ? [String(status), String(webdavResponses.parent_missing.status)] : [String(status)]
  },
  async names(visitor, question, path) {
    const { status, text } = await sendDav(visitor, question, path, { method: 'PROPFIND', headers: { depth: '1' } })
    if (status !== 207) return undefined
    const hrefs = [...text.matchAll(/<[^:>]*:?href>([^<]*)</gi)].map((match) => match[1] ?? '')
    const [, ...members] = hrefs.map((href) => href.replace(/\/$/, '').replace(/^.*\//, ''))
    return members.sort()
  },
}

const guestId = 2

// ---- SFTP --------------------------------------------------------------------------------------------------------

type Done<Result> = (error?: Error | null, result?: Result) => void

/** Resolves to the result, or rejects with the failure. */
function run<Result>(work: (done: Done<Result>) => void): Promise<Result> {
  return new Promise((resolve, reject) => work((error, result) => (error ? reject(error) : resolve(result as Result))))
}

async function writeBy(sftp: SFTPWrapper, path: string, mode: 'w' | 'w+' | 'r+'): Promise<void> {
  const handle = await run<Buffer>((done) => sftp.open(path, mode, done))
  const bytes = Buffer.from(content)
  await run((done) => sftp.write(handle, bytes, 0, bytes.length, 0, done))
  await run((done) => sftp.close(handle, done))
}

function sftpOperationOf(world: World, question: Question): ((sftp: SFTPWrapper) => Promise<unknown>) | undefined {
  const { action, makes, reads } = question
  const path = ownPath(world, question, question.path)
  const kind = kindAt(world, question.path)
  switch (action) {
    case 'see':
      return (sftp) => run((done) => sftp.stat(path, done))
    case 'read':
      if (kind === 'folder') return undefined
      return async (sftp) => {
        const handle = await run<Buffer>((done) => sftp.open(path, 'r', done))
        await run((done) => sftp.close(handle, done))
      }
    case 'write':
      if (reads === true) return (sftp) => writeBy(sftp, path, makes === true ? 'w+' : 'r+')
      if (makes !== true) return (sftp) => run((done) => sftp.setstat(path, { atime: 1, mtime: 1 }, done))
      if (kind === undefined && question.time % 2 === 0) return (sftp) => run((done) => sftp.mkdir(path, done))
      return (sftp) => writeBy(sftp, path, 'w')
    case 'remove': {
      if (world.symlinks.some((each) => each.path === question.path) || kind !== 'folder') {
        return (sftp) => run((done) => sftp.unlink(path, done))
      }
      const real = realPath(world, question.path, false)
      const isEmpty = [...world.entries, ...world.symlinks].every((each) => parentOf(each.path) !== real)
      return isEmpty ? (sftp) => run((done) => sftp.rmdir(path, done)) : undefined
    }
    case 'rename':
    case 'move': {
      if (question.to === undefined) return undefined
      const to = ownPath(world, question, question.to)
      if (question.replaces !== true) return (sftp) => run((done) => sftp.rename(path, to, done))
      // A folder replaces only an empty one, and no file.
      const target = kindAt(world, question.to)
      if (kind === 'folder' || target === 'folder') return undefined
      return (sftp) => run((done) => sftp.ext_openssh_rename(path, to, done))
    }
    case 'copy':
    case 'share':
      return undefined
  }
}

/** An account that may not use SFTP cannot sign in. */
const noSession: Reply = { outcome: String(sftpResponses.denied.status), text: 'no session' }

function sftpRequestOf(world: World, question: Question): Request | undefined {
  const operation = sftpOperationOf(world, question)
  if (operation === undefined) return undefined
  return {
    asked: [{ question }],
    send: async (visitor) => {
      const sftp = await visitor.sftp(question.readOnly === true)
      if (sftp === undefined) return noSession
      try {
        await operation(sftp)
        return { outcome: 'done', text: '' }
      } catch (error) {
        const { code, message } = error as { code?: number; message?: string }
        return { outcome: String(code), text: `${code} ${message}` }
      }
    },
  }
}

const sftp: ProtocolUnderTest = {
  name: 'sftp',
  adapted(question) {
    const { action, readOnly, reads, user } = question
    return {
      ...plain({ ...question, wholeTree: false, reads: action === 'write' && reads === true }, 'sftp'),
      ...(readOnly === true && user !== guestId && { readOnly }),
    }
  },
  requestOf: sftpRequestOf,
  outcomesOf: (error) => [String(sftpResponses[error].status)],
  async names(visitor, question, path) {
    const session = await visitor.sftp(question.readOnly === true)
    if (session === undefined) return undefined
    try {
      const list = await run<{ filename: string }[]>((done) => session.readdir(path, done))
      return list
        .map((each) => each.filename)
        .filter((name) => name !== '.' && name !== '..')
        .sort()
    } catch {
      return undefined
    }
  },
}

export const protocolsUnderTest: readonly ProtocolUnderTest[] = [http, webdav, sftp]
