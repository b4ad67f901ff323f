/** The offline downloads of the 115 Open double. A task ends when the test says so. */
import { createHash } from 'node:crypto'
import type { Content } from '../contents.js'
import { asNumberOrText, Refusal, refusals } from './answers.js'
import type { Drive } from './drive.js'
import { required, type Call, type Done } from './files.js'

interface OfflineTask {
  readonly hash: string
  readonly url: string
  readonly folder: string
  readonly added: number
  name: string
  size: number
  /** -1 failed, 0 waiting, 1 running, 2 done. */
  status: -1 | 0 | 1 | 2
  percent: number
  /** What it has downloaded; empty before it is done. */
  fileId: string
}

const pageSize = 30
const schemes = /^(?:https?|ftp|ed2k|magnet):/i

export class Offline {
  readonly tasks: OfflineTask[] = []
  /** Number of tasks that may still be added. */
  quota = 100

  constructor(private readonly drive: Drive) {}

  readonly calls: Readonly<Record<string, Call>> = {
    'POST /open/offline/add_task_urls': (fields) => this.#add(fields),
    'GET /open/offline/get_task_list': (fields) => this.#list(fields),
    'POST /open/offline/del_task': (fields) => this.#remove(fields),
    'GET /open/offline/get_quota_info': () => ({ data: { count: 100, used: 100 - this.quota, surplus: this.quota } }),
    'POST /open/offline/clear_task': (fields) => this.#clear(Number(required(fields, 'flag'))),
  }

  /** The task of this URL has got so far. */
  progress(url: string, percent: number): void {
    const task = this.#of(url)
    task.status = 1
    task.percent = percent
  }

  /** The task of this URL is done: its file is in the folder. */
  finish(url: string, name: string, content: Content): void {
    const task = this.#of(url)
    const { id } = this.drive.create(task.folder, name, content)
    Object.assign(task, { status: 2, percent: 100, name, size: content.size, fileId: id })
  }

  fail(url: string): void {
    this.#of(url).status = -1
  }

  #of(url: string): OfflineTask {
    const task = this.tasks.find((each) => each.url === url)
    if (!task) throw new Error(`no task of ${url}`)
    return task
  }

  #add(fields: URLSearchParams): Done {
    const folder = required(fields, 'wp_path_id')
    if (!this.drive.isFolder(folder)) throw refusals.missing()
    const data = required(fields, 'urls')
      .split('\n')
      .map((url) => {
        try {
          return { state: true, code: 0, message: '', info_hash: this.#addOne(url, folder), url }
        } catch (error) {
          const { code, message } = error as Refusal
          return { state: false, code, message, info_hash: '', url }
        }
      })
    return { data }
  }

  #addOne(url: string, folder: string): string {
    if (!schemes.test(url)) throw refusals.badLink()
    if (this.tasks.some((task) => task.url === url)) throw refusals.linkExists()
    if (this.quota <= 0) throw new Refusal(10010, '您的云下载配额已用完')
    this.quota--
    const hash = createHash('sha1').update(url).digest('hex')
    const name = url.slice(url.lastIndexOf('/') + 1)
    const added = Math.floor(Date.now() / 1000)
    this.tasks.unshift({ hash, url, folder, added, name, size: 0, status: 0, percent: 0, fileId: '' })
    return hash
  }

  #list(fields: URLSearchParams): Done {
    const page = Math.max(1, Number(fields.get('page') ?? 1))
    const shown = this.tasks.slice((page - 1) * pageSize, page * pageSize)
    const data = {
      page,
      page_count: Math.max(1, Math.ceil(this.tasks.length / pageSize)),
      count: asNumberOrText(this.tasks.length),
      tasks: shown.map((task) => ({
        ...{ info_hash: task.hash, name: task.name, size: asNumberOrText(task.size), url: task.url },
        ...{ add_time: task.added, last_update: task.added, percentDone: task.percent, status: task.status },
        ...{ file_id: task.fileId, delete_file_id: task.fileId, wp_path_id: task.folder },
      })),
    }
    return { data }
  }

  #remove(fields: URLSearchParams): Done {
    const index = this.tasks.findIndex(({ hash }) => hash === required(fields, 'info_hash'))
    const [task] = index < 0 ? [] : this.tasks.splice(index, 1)
    if (!task) throw refusals.parameters()
    if (fields.get('del_source_file') === '1' && task.fileId !== '') this.drive.remove(task.fileId)
    return { data: [] }
  }

  /** 0 done, 1 all, 2 failed, 3 running, 4 done and their files, 5 all and their files. */
  #clear(flag: number): Done {
    const cleared = this.tasks.filter(({ status }) => {
      if (flag === 0 || flag === 4) return status === 2
      if (flag === 2) return status === -1
      return flag !== 3 || status === 0 || status === 1
    })
    for (const task of cleared) {
      this.tasks.splice(this.tasks.indexOf(task), 1)
      if (flag >= 4 && task.fileId !== '') this.drive.remove(task.fileId)
    }
    return { data: [] }
  }
}
