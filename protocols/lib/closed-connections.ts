/**
 * Finds connections that the other end has closed although they are not being read. Node reports the end of a
 * connection only after all bytes before it have been read, and it reads none while a backend accepts none.
 */
import { fstat } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Server, Socket } from 'node:net'
import { promisify } from 'node:util'

/** The tables of the TCP connections of this network namespace, on Linux: proc_net_tcp(5). */
const tables = ['/proc/net/tcp', '/proc/net/tcp6']

/** The columns of these tables. */
const stateColumn = 3
const inodeColumn = 9

const status = promisify(fstat)

/** TCP_CLOSE_WAIT of the kernel's `tcp_states.h`: the other end has closed the connection, this end has not. */
const closeWait = '08'

/**
 * Which of these sockets have a connection that the other end has closed or reset. `server` is what accepted them.
 * Returns none where the tables are not available, as on other systems than Linux. Never rejects.
 */
export async function closedByPeer(server: Server, sockets: readonly Socket[]): Promise<readonly Socket[]> {
  const first = await statesByInode()
  const listening = await inodeOf(server)
  // Otherwise the tables are of another network namespace than these connections.
  if (listening === undefined || !first.has(listening)) return []
  let second: ReadonlyMap<string, string> | undefined
  const closed: Socket[] = []
  for (const socket of sockets) {
    const inode = await inodeOf(socket)
    if (inode === undefined) continue
    let state = first.get(inode)
    // A reset connection is not listed. One that is open can be missing if the table changes while it is read.
    if (state === undefined) {
      second ??= await statesByInode()
      state = second.get(inode)
    }
    if (state === undefined || state === closeWait) closed.push(socket)
  }
  return closed
}

async function statesByInode(): Promise<ReadonlyMap<string, string>> {
  const states = new Map<string, string>()
  for (const text of await Promise.all(tables.map((table) => readFile(table, 'latin1').catch(() => '')))) {
    for (const line of text.split('\n')) {
      const columns = line.trim().split(/\s+/)
      const [state, inode] = [columns[stateColumn], columns[inodeColumn]]
      if (state !== undefined && inode !== undefined) states.set(inode, state)
    }
  }
  return states
}

/** The inode of the socket, which identifies it in the tables. Undefined if the socket is closed. */
async function inodeOf(socket: object): Promise<string | undefined> {
  // Node has no public name for the descriptor of a socket.
  const { fd } = (socket as { _handle?: { fd?: number } | null })._handle ?? {}
  if (fd === undefined || fd < 0) return undefined
  return status(fd).then(
    ({ ino }) => String(ino),
    () => undefined,
  )
}
