/** What grants cost: the same requests by turns, of a user with two hundred grants and of one without any. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newName, smallContent } from './content.js'
import { HttpClient, type Exchange } from './http-client.js'
import { makeFolder } from './listings.js'
import { against, byTurns, freshAdmin } from './one-daemon.js'
import { password, isTidegate, type Tidegate } from './peers/tidegate.js'
import { counted, scaled, type Bench, type Row } from './row.js'
import { indexed, keywords, makeTree, nameCount, namesInFolder } from './search.js'

const grantCount = 200
const allPermissions = 0xffff

interface Grant {
  readonly path: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

const everything = ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove']
const denial = (path: string): Grant => ({ path, allow: [], deny: ['see'] })

/** Grants elsewhere in the tree, so that the user has `grantCount` with these. */
function filledUp(grants: readonly Grant[]): readonly Grant[] {
  const others = Array.from({ length: grantCount - grants.length }, (_, at) => denial(`/elsewhere/${at % 10}/${at}`))
  return [...grants, ...others]
}

export interface BenchUser {
  readonly id: number
  readonly username: string
  readonly password: string
  readonly token: string
  /** The header `Authorization` for WebDAV. */
  readonly basic: string
}

/** A user with these grants, signed in. The user may exist. */
export async function userWith(peer: Tidegate, username: string, grants: readonly Grant[]): Promise<BenchUser> {
  const admin = await freshAdmin(peer)
  const find = async () => {
    const { content } = (await admin('/api/admin/user/list')) as {
      content: readonly { id: number; username: string }[]
    }
    return content.find((each) => each.username === username)?.id
  }
  const fields = { username, password, base_path: '/', permission: allPermissions, grants }
  const known = await find()
  await (known === undefined
    ? admin('/api/admin/user/create', fields)
    : admin('/api/admin/user/update', { id: known, ...fields }))
  const { token } = (await peer.call('/api/auth/login', { username, password })) as { token: string }
  const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  return { id: known ?? (await find()) ?? 0, username, password, token, basic }
}

/** Makes what a row needs of each peer once. */
export function once<T>(
  make: (peer: Tidegate, bench: Bench) => Promise<T>,
): (peer: Tidegate, bench: Bench) => Promise<T> {
  const made = new WeakMap<Tidegate, Promise<T>>()
  return (peer, bench) => {
    const all = made.get(peer) ?? make(peer, bench)
    made.set(peer, all)
    return all
  }
}

function apiCall(peer: Tidegate, { token }: BenchUser, path: string, fields: object) {
  const { headers, ...exchange } = peer.exchange(path, fields)
  const own: Exchange = { ...exchange, headers: { ...headers, Authorization: token } }
  return (client: HttpClient) => client.send(own)
}

// Listings

const listed = 10_000
/** How many entries of that folder have grants of their own. */
const membersWithGrants = 100

const usersOfListing = once(async (peer, bench) => {
  const folder = `/${scaled(bench, listed)}`
  const members = Array.from({ length: Math.min(membersWithGrants, scaled(bench, listed)) }, (_, at) =>
    denial(`${folder}/a file ${at}.txt`),
  )
  return Promise.all([
    userWith(peer, 'lists without grants', []),
    userWith(peer, 'lists with grants', filledUp([{ path: folder, allow: everything, deny: [] }])),
    userWith(peer, 'lists a part', filledUp(members)),
  ])
})

const listing: Row = {
  name: 'rights-list',
  figures: (bench) => {
    const title = `fs/list of ${counted(scaled(bench, listed))}`
    return [
      { title: `${title}, by a user without grants`, unit: 'ms', aims: [] },
      { title: `${title}, with ${grantCount} grants, against that`, unit: 'times', aims: [{ atMost: 1.2 }] },
      {
        title: `a page of 100, with ${grantCount} grants, against one without`,
        unit: 'times',
        aims: [{ atMost: 1.2 }],
      },
      {
        title: `${title}, ${membersWithGrants} of the grants in it, against that without`,
        unit: 'times',
        aims: [{ atMost: 1.2 }],
      },
      { title: 'a page of 100 of these, against one without', unit: 'times', aims: [{ atMost: 1.2 }] },
    ]
  },
  prepare: (bench) => makeFolder(bench, scaled(bench, listed)),
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    const users = await usersOfListing(peer, bench)
    const path = `/${scaled(bench, listed)}`
    const ask = (fields: object) =>
      users.map((user) => apiCall(peer, user, '/api/fs/list', { path, page: 1, ...fields }))
    const rounds = scaled(bench, 15)
    const whole = await byTurns(peer, { rounds, times: 2 }, ask({ per_page: 0 }))
    const page = await byTurns(peer, { rounds, times: 20 }, ask({ per_page: 100 }))
    const [granted = NaN, inside = NaN] = against(whole)
    const [grantedPage = NaN, insidePage = NaN] = against(page)
    return [whole[0]?.milliseconds ?? NaN, granted, grantedPage, inside, insidePage]
  },
}

// Searches

const usersOfSearch = once(async (peer, bench) => {
  const boxes = Math.ceil(scaled(bench, nameCount) / namesInFolder)
  const grants = new Map<string, Grant>()
  for (let at = 0; at < grantCount; at++) {
    const box = Math.floor((at * boxes) / grantCount)
    const path = `/search/shelf ${Math.floor(box / 100)}/box ${box}`
    grants.set(path, denial(path))
  }
  const some = { path: '/search', allow: ['see', 'read'], deny: [] }
  return Promise.all([
    userWith(peer, 'searches without grants', []),
    userWith(peer, 'searches with grants', [...grants.values()]),
    userWith(peer, 'searches a part', [denial('/'), ...[...grants.keys()].map((path) => ({ ...some, path }))]),
  ])
})

const search: Row = {
  name: 'rights-search',
  figures: (bench) => {
    const title = `search over ${counted(scaled(bench, nameCount))} names`
    return [
      { title: `${title}, by a user without grants, median`, unit: 'ms', aims: [] },
      { title: `the same with ${grantCount} folders denied, against that`, unit: 'times', aims: [{ atMost: 1.5 }] },
      {
        title: `the same with ${grantCount} folders allowed only, against that`,
        unit: 'times',
        aims: [{ atMost: 1.5 }],
      },
      { title: 'search for a word in every name, by a user without grants', unit: 'ms', aims: [] },
      { title: `the same with ${grantCount} folders denied, against that`, unit: 'times', aims: [] },
      { title: `the same with ${grantCount} folders allowed only, against that`, unit: 'times', aims: [] },
    ]
  },
  prepare: makeTree,
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    await indexed(peer)
    const users = await usersOfSearch(peer, bench)
    const ask = (words: (round: number) => string) =>
      users.map((user) => (client: HttpClient, round: number) => {
        const fields = { parent: '/', keywords: words(round), scope: 0, page: 1, per_page: 100, password: '' }
        return apiCall(peer, user, '/api/fs/search', fields)(client)
      })
    const rounds = scaled(bench, 15)
    const some = await byTurns(peer, { rounds, times: 10 }, ask(keywords))
    const all = await byTurns(
      peer,
      { rounds, times: 1 },
      ask(() => '.txt'),
    )
    return [some, all].flatMap((taken) => [taken[0]?.milliseconds ?? NaN, ...against(taken)])
  },
}

// Small files

/** The folders of the two users. */
const ruled = '/rights/ruled'
const granted = '/rights/granted'

const usersOfFiles = once(async (peer) => {
  const users = await Promise.all([
    userWith(peer, 'has a rule', []),
    userWith(peer, 'has grants', filledUp([{ path: granted, allow: everything, deny: [] }])),
  ])
  const admin = await freshAdmin(peer)
  const rule = { path: ruled, write: true, w_sub: true, read_users: [users[0].id], read_users_sub: true }
  await admin('/api/admin/meta/create', rule)
  return users
})

const smallFiles: Row = {
  name: 'rights-small',
  figures: () => [
    { title: 'GET of 1 KiB over WebDAV, below a folder rule, one connection', unit: 'ms', aims: [] },
    { title: `the same by a user with ${grantCount} grants, against that`, unit: 'times', aims: [{ atMost: 1.1 }] },
    { title: 'PUT of 1 KiB over WebDAV, below a folder rule, one connection', unit: 'ms', aims: [] },
    { title: `the same by a user with ${grantCount} grants, against that`, unit: 'times', aims: [{ atMost: 1.1 }] },
  ],
  async prepare({ files }) {
    for (const folder of [ruled, granted]) {
      await mkdir(join(files, folder, 'deep/er'), { recursive: true })
      await writeFile(join(files, folder, 'deep/er/small'), smallContent)
    }
  },
  async measure(peer, bench) {
    if (!isTidegate(peer) || peer.dav === undefined) return undefined
    const { url } = peer.dav
    const users = await usersOfFiles(peer, bench)
    const folders = [ruled, granted].map((folder) => `${url.slice(0, -1)}${folder}/deep/er/`)
    const ask = (exchangeIn: (folder: string) => Exchange) =>
      folders.map(
        (folder, at) => (client: HttpClient) =>
          client.send({ ...exchangeIn(folder), headers: { Authorization: users[at]?.basic ?? '' } }),
      )
    const rounds = scaled(bench, 20)
    const gets = await byTurns(
      peer,
      { rounds, times: 100 },
      ask((folder) => ({ method: 'GET', url: `${folder}small` })),
    )
    const puts = await byTurns(
      peer,
      { rounds, times: 50 },
      ask((folder) => ({ method: 'PUT', url: folder + newName(), body: smallContent })),
    )
    return [gets, puts].flatMap((taken) => [taken[0]?.milliseconds ?? NaN, ...against(taken)])
  },
}

export const rightsRows: readonly Row[] = [listing, search, smallFiles]
