/**
 * Every field of the three protocols that takes a path or a name, each as a function from the value to the whole
 * response.
 */
import type { Test } from 'tap'
import {
  flags,
  symlinkTypes,
  names,
  noAttributes,
  string,
  types,
  uint32,
  type Answer,
} from '../protocols/sftp/packet-client.js'
import type { ProtocolName } from '../stories/protocols.js'
import { basic, packets, send, signIn, type Reply, type World } from './world.js'

export interface Field {
  /** `POST /api/fs/move names`. */
  readonly title: string
  readonly protocol: ProtocolName
  /** 'path': any path; 'name': the name of a member of the folder /open; 'new': the name of a new member of it. */
  readonly kind: 'path' | 'name' | 'new'
  /** Sends the value. Resolves to the whole response as text. */
  readonly say: (text: string) => Promise<string>
}

/** A file of the user, on which changes are made. */
export const bait = '/open/bait'

export async function everyField(t: Test, world: World, username = 'mallory'): Promise<readonly Field[]> {
  return [
    ...(await httpFields(world, username)),
    ...webdavFields(world, username),
    ...(await sftpFields(t, world, username)),
  ]
}

const told = ({ status, headers, text }: Reply): string => {
  const { date: _date, ...others } = headers
  return `${status} ${JSON.stringify(others)} ${text}`
}

async function httpFields(world: World, username: string): Promise<readonly Field[]> {
  const { url } = world
  const authorization = await signIn(world, username)
  const json = { authorization, 'content-type': 'application/json' }
  const field = (kind: Field['kind'], endpoint: string, name: string, body: (text: string) => object): Field => ({
    title: `POST /api/fs/${endpoint} ${name}`,
    protocol: 'http',
    kind,
    say: async (text) => told(await send(url, 'POST', `/api/fs/${endpoint}`, json, JSON.stringify(body(text)))),
  })
  const query = (endpoint: string): Field => ({
    title: `GET /api/fs/${endpoint}?path`,
    protocol: 'http',
    kind: 'path',
    say: async (text) => {
      const target = `/api/fs/${endpoint}?path=${encodeURIComponent(text.toWellFormed())}`
      return told(await send(url, 'GET', target, { authorization }))
    },
  })
  const form = (endpoint: string): Field => ({
    title: `POST /api/fs/${endpoint} path in a form`,
    protocol: 'http',
    kind: 'path',
    say: async (text) => {
      const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
      return told(
        await send(url, 'POST', `/api/fs/${endpoint}`, headers, new URLSearchParams({ path: text }).toString()),
      )
    },
  })
  const upload = (
    endpoint: 'put' | 'form',
    kind: Field['kind'],
    path: (text: string) => string,
    title: string,
  ): Field => ({
    title: `PUT /api/fs/${endpoint} ${title}`,
    protocol: 'http',
    kind,
    say: async (text) => {
      const boundary = 'of-this-form'
      const body =
        endpoint === 'put'
          ? 'by mallory'
          : `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nby mallory\r\n--${boundary}--\r\n`
      const headers = {
        authorization,
        'file-path': path(text),
        ...(endpoint === 'form' && { 'content-type': `multipart/form-data; boundary=${boundary}` }),
      }
      return told(await send(url, 'PUT', `/api/fs/${endpoint}`, headers, body))
    },
  })
  const zip = (kind: Field['kind'], name: string, body: (text: string) => object): Field => ({
    title: `POST /api/fs/zip ${name}`,
    protocol: 'http',
    kind,
    say: async (text) => told(await send(url, 'POST', '/api/fs/zip', json, JSON.stringify(body(text)))),
  })
  const encoded = (text: string): string => encodeURIComponent(text.toWellFormed())
  /** An upload in one chunk. */
  const chunks = (kind: Field['kind'], path: (text: string) => string, title: string): Field => ({
    title: `POST /api/fs/multipart/init ${title}, also by /api/fs/multipart/chunk and /api/fs/multipart/complete with /api/fs/multipart/abort after it`,
    protocol: 'http',
    kind,
    say: async (text) => {
      const ask = async (method: string, step: string, headers: Record<string, string>, body = '') =>
        send(url, method, `/api/fs/multipart/${step}`, { authorization, ...headers }, body)
      const begun = await ask('POST', 'init', { 'file-path': path(text), 'x-file-size': '10' })
      const id = /"upload_id":"([^"]*)"/.exec(begun.text)?.[1] ?? ''
      const withoutId = (reply: Reply) => told(reply).replaceAll(id || '-', 'id')
      const headers = { 'x-upload-id': id }
      const chunk = await ask('PUT', 'chunk', { ...headers, 'x-chunk-index': '0' }, 'by mallory')
      const completed = await ask('POST', 'complete', headers)
      const aborted = await ask('POST', 'abort', headers)
      return [begun, chunk, completed, aborted].map(withoutId).join(' ')
    },
  })
  return [
    field('path', 'list', 'path', (path) => ({ path })),
    field('path', 'get', 'path', (path) => ({ path })),
    field('path', 'dirs', 'path', (path) => ({ path })),
    field('path', 'history', 'path', (path) => ({ path })),
    field('path', 'history', 'path in the cursor', (path) => ({
      path: '/open',
      cursor: Buffer.from(
        JSON.stringify({ time: 9e14, id: '019ad000-0000-7000-8000-000000000000', paths: [path], isMade: false }),
      ).toString('base64url'),
    })),
    query('list'),
    query('get'),
    query('dirs'),
    form('list'),
    form('get'),
    field('path', 'search', 'parent', (parent) => ({ parent, keywords: 'there', page: 1, per_page: 100 })),
    field('path', 'link', 'path', (path) => ({ path })),
    zip('path', 'path', (path) => ({ path })),
    zip('path', 'path with names', (path) => ({ path, names: ['there.txt'] })),
    zip('name', 'names', (name) => ({ path: '/open', names: [name] })),
    {
      title: 'POST /api/fs/zip_link path and names',
      protocol: 'http',
      kind: 'path',
      say: async (path) => {
        const { status, text } = await send(url, 'POST', '/api/fs/zip_link', json, JSON.stringify({ path }))
        return `${status} ${text.includes('"code":200') ? 'linked' : text}`
      },
    },
    field('name', 'zip_link', 'names', (name) => ({ path: '/open', names: [name, 'gone'] })),
    field('path', 'share_link', 'path', (path) => ({ path })),
    field('path', 'mkdir', 'path', (path) => ({ path })),
    field('path', 'rename', 'path', (path) => ({ path, name: 'renamed', overwrite: true })),
    field('new', 'rename', 'name', (name) => ({ path: bait, name, overwrite: true })),
    field('path', 'batch_rename', 'src_dir', (path) => ({
      src_dir: path,
      rename_objects: [{ src_name: 'there.txt', new_name: 'renamed' }],
    })),
    field('name', 'batch_rename', 'src_name', (name) => ({
      src_dir: '/open',
      rename_objects: [{ src_name: name, new_name: 'renamed' }],
    })),
    field('new', 'batch_rename', 'new_name', (name) => ({
      src_dir: '/open',
      rename_objects: [{ src_name: 'bait', new_name: name }],
    })),
    field('path', 'regex_rename', 'src_dir', (path) => ({
      src_dir: path,
      src_name_regex: '^',
      new_name_regex: 'renamed ',
    })),
    field('new', 'regex_rename', 'result', (name) => ({
      src_dir: '/open',
      src_name_regex: '^bait$',
      new_name_regex: name.replaceAll('$', '$$$$'),
    })),
    ...(['move', 'copy'] as const).flatMap((endpoint) => [
      field('path', endpoint, 'src_dir', (path) => ({
        src_dir: path,
        dst_dir: '/open/sub',
        names: ['there.txt'],
        overwrite: true,
      })),
      field('path', endpoint, 'dst_dir', (path) => ({
        src_dir: '/open',
        dst_dir: path,
        names: ['bait'],
        overwrite: true,
      })),
      field('name', endpoint, 'names', (name) => ({
        src_dir: '/open',
        dst_dir: '/open/sub',
        names: [name],
        overwrite: true,
      })),
    ]),
    field('path', 'recursive_move', 'src_dir', (path) => ({
      src_dir: path,
      dst_dir: '/open/sub',
      conflict_policy: 'overwrite',
    })),
    field('path', 'recursive_move', 'dst_dir', (path) => ({
      src_dir: '/open',
      dst_dir: path,
      conflict_policy: 'overwrite',
    })),
    field('path', 'remove', 'dir', (path) => ({ dir: path, names: ['there.txt'] })),
    field('name', 'remove', 'names', (name) => ({ dir: '/open', names: [name] })),
    field('path', 'remove_empty_directory', 'src_dir', (path) => ({ src_dir: path })),
    field('path', 'add_offline_download', 'path', (path) => ({
      urls: ['http://127.0.0.1:9/there.txt'],
      path,
      tool: 'SimpleHttp',
    })),
    upload('put', 'path', encoded, 'File-Path'),
    upload('put', 'new', (text) => encoded(`/open/${text}`), 'File-Path below a folder'),
    upload('put', 'path', (text) => Buffer.from(headerSafe(text)).toString('latin1'), 'File-Path unescaped'),
    upload('form', 'path', encoded, 'File-Path'),
    chunks('path', encoded, 'File-Path'),
    chunks('new', (text) => encoded(`/open/${text}`), 'File-Path below a folder'),
    {
      title: 'GET /api/fs/multipart/status path',
      protocol: 'http',
      kind: 'path',
      say: async (text) => {
        const target = `/api/fs/multipart/status?size=10&path=${encoded(text)}`
        return told(await send(url, 'GET', target, { authorization }))
      },
    },
  ]
}

/** Escapes characters that a header cannot contain. */
function headerSafe(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f]/g, (character) => encodeURIComponent(character))
}

function webdavFields(world: World, username: string): readonly Field[] {
  const { url } = world
  const authorization = basic(username)
  const xml = { authorization, 'content-type': 'application/xml' }
  const dav = (text: string): string => `/dav${text.startsWith('/') ? '' : '/'}${text}`
  const field = (
    method: string,
    name: string,
    target: (text: string) => string,
    headers: (text: string) => Record<string, string> = () => ({}),
    body?: string,
  ): Field => ({
    title: `${method} ${name}`,
    protocol: 'webdav',
    kind: 'path',
    say: async (text) => told(await send(url, method, target(text), { ...xml, ...headers(text) }, body)),
  })
  const destination = (text: string): Record<string, string> => ({
    destination: headerSafe(`${url}${dav(Buffer.from(text).toString('latin1'))}`),
    overwrite: 'T',
  })
  const patch =
    '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">1</x></D:prop></D:set></D:propertyupdate>'
  const lock =
    '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>'
  const escape = (text: string): string => text.toWellFormed().split('/').map(encodeURIComponent).join('/')
  return [
    field('GET', 'target', dav),
    field('GET', 'escaped target', (text) => dav(escape(text))),
    field('HEAD', 'target', dav),
    field('PROPFIND', 'target', dav, () => ({ depth: '1' })),
    field(
      'PROPFIND',
      'escaped target',
      (text) => dav(escape(text)),
      () => ({ depth: 'infinity' }),
    ),
    field('PUT', 'target', dav, undefined, 'by mallory'),
    field('PUT', 'escaped target', (text) => dav(escape(text)), undefined, 'by mallory'),
    field('MKCOL', 'target', dav),
    field('DELETE', 'target', dav),
    field('PROPPATCH', 'target', dav, undefined, patch),
    field('LOCK', 'target', dav, undefined, lock),
    field('COPY', 'target', dav, () => destination('/open/copied')),
    field('COPY', 'Destination', () => dav(bait), destination),
    field('MOVE', 'target', dav, () => destination('/open/moved')),
    field('MOVE', 'Destination', () => dav(bait), destination),
    field(
      'GET',
      'tag of an If list',
      () => dav(bait),
      (text) => ({
        if: `<${destination(text).destination ?? ''}> (["x"]) (Not <DAV:no-lock>)`,
      }),
    ),
  ]
}

async function sftpFields(t: Test, world: World, username: string): Promise<readonly Field[]> {
  const session = await packets(t, world, username)
  const { open, lstat, setstat } = types
  const { opendir, remove, mkdir, rmdir, realpath, stat, rename } = names
  const size = Buffer.concat([uint32(1), Buffer.alloc(8)])
  const say = ({ type, body }: Answer): string => `${type} ${body.toString('latin1')}`
  const field = (title: string, ask: (path: Buffer) => Promise<Answer>): Field => ({
    title: `SFTP ${title}`,
    protocol: 'sftp',
    kind: 'path',
    say: async (text) => {
      const answer = await ask(string(text))
      if (answer.type !== 102) return say(answer)
      // Reads what was opened.
      const handle = answer.body.subarray(4)
      const [read, members] = [
        await session.ask(types.read, string(handle), Buffer.alloc(8), uint32(100)),
        await session.ask(names.readdir, string(handle)),
      ]
      const closed = await session.ask(types.close, string(handle))
      return `opened ${say(read)} ${say(members)} ${say(closed)}`
    },
  })
  const of = string(bait)
  return [
    field('STAT', (path) => session.ask(stat, path)),
    field('LSTAT', (path) => session.ask(lstat, path)),
    field('OPENDIR', (path) => session.ask(opendir, path)),
    field('OPEN to read', (path) => session.ask(open, path, uint32(flags.read), noAttributes)),
    field('OPEN to update', (path) => session.ask(open, path, uint32(flags.write), noAttributes)),
    field('OPEN to replace', (path) => {
      return session.ask(open, path, uint32(flags.write | flags.create | flags.truncate), noAttributes)
    }),
    field('OPEN to create', (path) => {
      return session.ask(open, path, uint32(flags.write | flags.create | flags.exclusive), noAttributes)
    }),
    field('SETSTAT', (path) => session.ask(setstat, path, size)),
    field('lsetstat', (path) => session.extended('lsetstat@openssh.com', path, size)),
    field('MKDIR', (path) => session.ask(mkdir, path, noAttributes)),
    field('RMDIR', (path) => session.ask(rmdir, path)),
    field('REMOVE', (path) => session.ask(remove, path)),
    field('RENAME from', (path) => session.ask(rename, path, string('/open/renamed'))),
    field('RENAME to', (path) => session.ask(rename, of, path)),
    field('posix-rename from', (path) => session.extended('posix-rename@openssh.com', path, string('/open/renamed'))),
    field('posix-rename to', (path) => session.extended('posix-rename@openssh.com', of, path)),
    field('hardlink from', (path) => session.extended('hardlink@openssh.com', path, string('/open/linked'))),
    field('hardlink to', (path) => session.extended('hardlink@openssh.com', of, path)),
    field('READLINK', (path) => session.ask(symlinkTypes.readlink, path)),
    field('SYMLINK at', (path) => session.ask(symlinkTypes.symlink, string('bait'), path)),
    field('statvfs', async (path) => {
      // The usage of the disk changes independently.
      const { type, id, body } = await session.extended('statvfs@openssh.com', path)
      return type === 101 ? { type, id, body } : { type, id, body: Buffer.alloc(0) }
    }),
    field('REALPATH', (path) => session.ask(realpath, path)),
  ]
}
