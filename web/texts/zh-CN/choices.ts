/** The choices of fields and settings, by the names of the fields. Choices without a text are names themselves. */
import type { Translation } from '../texts.ts'

const direction = { asc: '升序', desc: '降序', ASC: '升序', DESC: '降序' }
const changes = {
  disabled: '不允许',
  first: '第一个文件夹',
  deterministic: '仅限只存在于一个文件夹的内容',
  deterministic_or_all: '仅限存在于一个或全部文件夹的内容',
  all: '所有包含它的文件夹',
  all_strict: '仅限全部文件夹都有的内容',
}

export default {
  choices: {
    webdav_policy: {
      '302_redirect': '直接从存储下载',
      native_proxy: '通过本服务器',
      use_proxy_url: '通过下载代理',
    },
    order_by: {
      none: '默认顺序',
      name: '名称',
      size: '大小',
      modified: '修改时间',
      file_name: '名称',
      file_size: '大小',
      file_type: '类型',
      user_utime: '修改时间',
      updated_at: '修改时间',
      created_at: '创建时间',
    },
    order_direction: direction,
    extract_folder: { front: '在文件之前', back: '在文件之后' },
    protection: { 'as the server asks': '按服务器要求', signed: '签名', encrypted: '加密' },
    vendor: { other: '其他' },
    read_conflict_policy: { first: '第一个', random: '大小相同的任意一个', all: '大小相同的任意一个（all）' },
    write_conflict_policy: changes,
    put_conflict_policy: {
      ...changes,
      random: '任意一个文件夹',
      quota: '空间足够或空间未知的文件夹',
      quota_strict: '仅限空间足够的文件夹',
    },
    filename_encryption: { off: '不加密', standard: '加密', obfuscate: '混淆' },
    directory_name_encryption: { false: '不加密', true: '加密' },
    qrcode_source: {
      web: '网页版',
      tv: '电视版',
      alipaymini: '支付宝小程序',
      wechatmini: '微信小程序',
    },
    drive_type: { default: '默认网盘', resource: '资源库', backup: '备份盘' },
    remove_way: { trash: '移到回收站', delete: '直接删除' },
    alipan_type: { default: '普通', alipanTV: '电视端' },
    livp_download_format: { jpeg: '图片（JPEG）', mov: '视频（MOV）' },
    search_index: {
      none: '不使用（关闭搜索）',
      database: '数据库',
      database_non_full_text: '数据库（非全文）',
    },
  },
} satisfies Translation<'choices'>
