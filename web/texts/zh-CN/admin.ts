/** Storages and the other pages of the administration. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  storages: {
    add: '添加存储',
    edit: '编辑',
    editTitle: (path) => `编辑 ${path}`,
    path: '挂载路径',
    driver: '驱动',
    status: '状态',
    space: '空间',
    order: '顺序',
    used: (used, total) => `已用 ${used}，共 ${total}`,
    states: { work: '正常', disabled: '已停用', starting: '正在启动' },
    test: '测试',
    tested: (path) => `“${path}”连接正常。`,
    enable: '启用',
    disable: '停用',
    more: '更多选项',
    saved: '存储已保存。',
    rootHint: '服务器上的文件夹，例如 /srv/files',
    required: '带 * 的字段必须填写。',
    driverManual: (driver) => `${driver} 的文档`,
    addFolder: '添加文件夹',
    addThis: (path) => `添加 ${path}`,
    trying: '正在测试……',
    tried: '存储可以使用。',
    triedWhenSaved: '您填写的内容只能使用一次，因此会在保存时测试存储。',
    saveAnyway: '仍要保存',
    free: (free, total) => `可用 ${free}，共 ${total}`,
    checkedWith: (text, reason) => `${text}后端的回答：${reason}`,
    /** Why a storage cannot be used, by the names of failures. */
    faults: {
      not_found: '后端有响应，但文件夹不存在。',
      parent_missing: '后端有响应，但文件夹不存在。',
      not_folder: '后端有响应，但这是文件，而不是文件夹。',
      denied: '后端拒绝访问。请检查用户名、密码或密钥，以及它们的权限。',
      storage_refused: '后端拒绝访问。请检查用户名、密码或密钥，以及它们的权限。',
      unavailable: '无法使用后端。请检查地址，以及服务器是否正在运行。',
      timeout: '后端没有及时响应。请检查地址，以及中间是否有防火墙。',
      invalid: '填写的内容有误。',
    },
    qr: {
      begin: '扫码登录',
      again: '刷新二维码',
      code: '二维码',
      states: {
        asking: '正在获取二维码……',
        waiting: '请用该网盘的手机 App 扫码，并在手机上确认。',
        scanned: '已扫码，请在手机上确认登录。',
        confirmed: '登录成功，已自动填写上方的字段。',
        expired: '二维码已失效。',
        refused: '已在手机上取消登录。',
      },
    },
    deleteTitle: '删除存储',
    deleteWarning: (path) => `“${path}”将不再显示，其中的文件不会被删除。`,
  },

  connections: {
    about: '当前已连接的用户。被断开的用户可以重新连接；如需阻止，请停用其账号或撤销其登录凭据。',
    open: '连接',
    node: (name) => `“${name}”上的 SFTP 会话，以及正在处理的 HTTP 和 WebDAV 请求。`,
    none: '当前没有连接。',
    user: '用户',
    visitor: '分享的访问者',
    address: 'IP 地址',
    protocol: '访问方式',
    since: '开始时间',
    received: '已接收',
    sent: '已发送',
    end: '断开',
    browsers: '已登录的浏览器',
    browser: '浏览器',
    used: '最近使用',
    signOut: '下线',
  },

  locks: {
    about: '程序通过 WebDAV 编辑文件时会锁定文件。如果程序异常退出，锁会保留到过期为止。',
    none: '没有被锁定的文件。',
    path: '路径',
    deep: '包括其中的全部内容',
    user: '用户',
    scope: '类型',
    scopes: { exclusive: '独占', shared: '共享' },
    expires: '过期时间',
    break: '强制解锁',
  },

  downloads: {
    about:
      '拥有“离线下载”权限的用户可以让服务器将文件下载到指定文件夹。除服务器内置的下载功能外，还可以使用以下下载程序。',
    toolSaved: (name) => `${name} 的设置已保存。`,
    testAndSave: (name) => `测试并保存 ${name} 设置`,
  },

  index: {
    off: '搜索功能未开启。请在下面选择一种索引，保存后即开始构建。',
    running: (count) => `正在扫描文件，已收录 ${number(count)} 项。`,
    names: (count) => `索引中共有 ${number(count)} 项。`,
    lastRun: (time) => `上次更新：${time}。`,
    build: '重新构建',
    update: '更新',
    stop: '停止',
    clear: '清空',
  },

  log: { level: '最低级别', empty: '没有此级别及以上的日志。' },

  about: {
    version: '版本',
    node: 'Node.js',
    platform: '系统',
    started: '启动时间',
    data: '数据文件夹',
    addresses: '监听地址',
    api: 'HTTP API 文档',
  },

  start: {
    about: '共三步，每一步都可以跳过：设置密码、添加存储、将文件挂载为网络驱动器。',
    password: '设置密码',
    passwordHint: '请修改首次启动时输出的初始密码。修改后，您在此处无需重新登录。',
    storage: '添加存储',
    storageHint:
      '数据文件夹中的 files 文件夹已作为根目录显示。您可以现在添加磁盘、服务器和网盘，也可以以后在“存储”中添加。',
    mount: '访问您的文件',
    done: '完成',
    offer: '这是新安装的服务器：',
  },
} satisfies Translation<'admin'>
