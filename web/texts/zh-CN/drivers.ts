/** The drivers of disks, servers and other storages, and the fields of every storage. The rest is in `clouds.ts`. */
import type { Translation } from '../texts.ts'

const username = { label: '用户名', help: '该服务器上的账号，而不是本站的账号。' }
const password = { label: '密码', help: '该账号的密码。' }
const rootFolder = { label: '服务器上的文件夹', help: '存储要显示的文件夹，以该账号看到的路径为准。/ 表示全部。' }
const anyCertificate = {
  label: '信任任何证书',
  help: '您与服务器之间的任何人都能读取和更改所有内容。仅供测试。',
}
const gateway = {
  url: { label: '对方网关的地址', help: '在浏览器中打开对方网站所用的地址，例如 https://files.example.org。' },
  username: { label: '用户名', help: '对方网关的账号。如果与令牌都留空，则以游客身份访问。' },
  password: { label: '密码', help: '该账号的密码。如果账号启用了两步验证，请使用令牌。' },
  root_folder_path: { label: '对方网关的文件夹', help: '存储要显示的文件夹。/ 表示全部。' },
  token: { label: '令牌', help: '用来代替密码，例如对方网关设置中的永久令牌。' },
  meta_password: { label: '文件夹密码', help: '如果对方网关要求输入密码才能查看文件夹，请在此填写。' },
  pass_ip_to_upsteam: {
    label: '转告客户端的地址',
    help: '让对方网关知道由谁下载。它的后端可能会将链接与该地址绑定。',
  },
  pass_ua_to_upsteam: {
    label: '转告客户端的程序',
    help: '让对方网关知道下载者的 User-Agent。它的后端可能会将链接与其绑定。',
  },
}

export default {
  drivers: {
    Local: {
      about: '显示本机上的文件夹：硬盘、U 盘，或挂载在本机上的其他磁盘。',
      fields: {
        root_folder_path: {
          label: '本机上的文件夹',
          help: '文件夹的路径，例如 /srv/files。它必须已经存在，并且本服务有权读取。',
        },
        recycle_bin_path: {
          label: '回收站',
          help: '本机上的一个文件夹，删除的文件会移到这里。填写“delete permanently”表示不使用回收站。',
        },
        thumbnail: { label: '缩略图', help: '为图片和视频生成缩略图，需要本机已安装 sharp 和 ffmpeg。' },
        thumb_cache_folder: {
          label: '缩略图文件夹',
          help: '在本机保存缩略图的位置，必须在上面的文件夹之外，最多占用 1 GiB。留空则不保存。',
        },
        thumb_concurrency: { label: '同时生成的缩略图', help: '同时生成的最大数量，不超过 64。' },
        video_thumb_pos: { label: '视频截取位置', help: '缩略图取自视频的哪个位置：秒数，或时长的百分比，例如 20%。' },
        directory_size: {
          label: '文件夹大小',
          help: '显示每个文件夹的总大小。每次列出文件夹时都要读取其下的全部文件夹。',
        },
        show_hidden: { label: '显示隐藏文件', help: '即名称以点开头的文件。' },
        mkdir_perm: {
          label: '新文件夹的权限',
          help: '八进制数，与 chmod 的写法相同，例如 755。本服务的 umask 仍然有效。',
        },
        sync: { label: '防止断电丢失', help: '文件写入磁盘后才算上传成功，速度会慢一些。' },
      },
    },
    FTP: {
      about: '显示 FTP 服务器上的文件夹，可以加密，也可以不加密。',
      fields: {
        address: {
          label: '地址',
          help: '主机和端口，例如 ftp.example.org:21。如需加密，请在前面加上 ftpes:// 或 ftps://。',
        },
        username,
        password,
        root_folder_path: rootFolder,
        encoding: { label: '名称的编码', help: '如果名称显示为乱码，可以填写 GBK 或 Shift_JIS 等。留空为 UTF-8。' },
        cwd_list: { label: '先进入文件夹再列出', help: '用于显示错误文件夹或不显示内容的旧服务器。' },
        ca_certificate: {
          label: '要信任的证书',
          help: '如果系统不信任该服务器，请填写服务器或其颁发机构的证书，格式为 PEM。',
        },
        tls_insecure_skip_verify: anyCertificate,
      },
    },
    SFTP: {
      about: '显示可以通过 SSH 连接的服务器上的文件夹。',
      fields: {
        address: { label: '地址', help: '主机和端口，例如 server.example.org:22。' },
        username,
        password: { label: '密码', help: '该账号的密码。如果使用密钥，请留空。' },
        private_key: {
          label: '私钥',
          help: '私钥文件的全部内容，通常是 ~/.ssh/id_ed25519。会先于密码尝试。',
        },
        root_folder_path: rootFolder,
        passphrase: { label: '私钥的口令', help: '如果私钥设有口令，请在此填写。' },
        host_key: {
          label: '服务器的指纹',
          help: 'SHA256:…，可在服务器上用 ssh-keygen -l 查看。留空则信任并记住第一次看到的指纹。',
        },
        ignore_symlink_error: { label: '显示失效的链接', help: '也列出指向不存在位置的符号链接。' },
      },
    },
    SMB: {
      about: '显示 Windows、NAS 或 Samba 的共享文件夹。',
      fields: {
        address: { label: '地址', help: '机器的名称或地址，例如 nas.local 或 192.168.1.2。' },
        share_name: { label: '共享名称', help: '机器名之后的第一部分：\\\\nas\\films 的共享名称是 films。' },
        username: { label: '用户名', help: '域账号请写成 DOMAIN\\user 或 user@domain。' },
        password: { label: '密码', help: '该账号的密码。如果共享对访客开放，请留空。' },
        root_folder_path: { label: '共享中的文件夹', help: '存储要显示的文件夹。一个点表示整个共享。' },
        protection: {
          label: '传输保护',
          help: '服务器要求的保护始终会使用。“签名”可防止篡改，“加密”还可防止窃听。',
        },
      },
    },
    WebDav: {
      about: '显示 WebDAV 服务器（例如 Nextcloud 或 NAS）上的文件夹。',
      fields: {
        address: { label: '地址', help: '服务器设置中给出的 WebDAV 地址，例如 https://example.org/dav。' },
        username,
        password: { label: '密码', help: '该账号的密码。如果账号启用了两步验证，请在对方网站创建应用密码。' },
        root_folder_path: { label: '服务器上的文件夹', help: '存储要显示的文件夹，从上面的地址算起。' },
        vendor: { label: '服务器类型', help: '请保持“其他”。不支持 SharePoint 的登录方式。' },
        tls_insecure_skip_verify: anyCertificate,
      },
    },
    S3: {
      about: '显示 Amazon S3 或兼容服务的存储桶。',
      fields: {
        endpoint: { label: '服务地址', help: '请查看服务商的文档，例如 https://s3.eu-central-1.amazonaws.com。' },
        bucket: { label: '存储桶', help: '存储桶的名称，可在服务商的网页上查看。' },
        access_key_id: { label: '访问密钥 ID', help: '在服务商处创建的访问密钥中公开的部分。' },
        secret_access_key: { label: '访问密钥', help: '访问密钥中保密的部分，只在创建时显示一次。' },
        root_folder_path: { label: '存储桶中的文件夹', help: '存储要显示的文件夹。/ 表示整个存储桶。' },
        region: { label: '区域', help: '例如 eu-central-1。Amazon 以外的许多服务可以任意填写。' },
        session_token: { label: '会话令牌', help: '临时访问密钥的第三部分。' },
        force_path_style: {
          label: '在路径中写存储桶',
          help: '用于没有为每个存储桶提供域名的服务，例如 MinIO。',
        },
        custom_host: { label: '文件的公开域名', help: '您自己的域名，客户端通过它下载，而不使用服务商的域名。' },
        enable_custom_host_presign: { label: '为该域名签名', help: '如果存储桶没有对所有人开放，请开启。' },
        remove_bucket: { label: '地址中不写存储桶', help: '如果公开域名只对应这一个存储桶，请开启。' },
        sign_url_expire: { label: '地址的有效期', help: '客户端可以使用地址的小时数，最多 168。' },
        placeholder: { label: '占位文件的名称', help: '用来保留空文件夹的隐藏空文件。留空为 .openlist。' },
        list_object_version: { label: '列表接口的版本', help: '仅当服务商要求时使用 v2。' },
        add_filename_to_disposition: { label: '兼容旧客户端的文件名', help: '文件的地址中同时带有普通字符的文件名。' },
        user_agent: { label: '客户端名称', help: '请求的 User-Agent，用于要求使用专用客户端的服务。' },
        keep_times: { label: '文件的时间', help: '显示客户端设置的时间，而不是上传时间。列出文件夹会变慢。' },
      },
    },
    Rclone: {
      about: '显示 rclone 的远程存储：Google Drive、OneDrive、Dropbox 以及 rclone 支持的其他存储。',
      fields: {
        remote: {
          label: '远程存储',
          help: '“rclone listremotes”列出的名称，带冒号，后面可以加文件夹：gdrive:films。',
        },
        config_path: {
          label: '配置文件',
          help: '“rclone config file”显示的文件。留空则使用运行本服务的用户的配置。',
        },
        config_password: { label: '配置文件的密码', help: '如果配置文件已加密，请在此填写。' },
        program_path: { label: '程序', help: '如果无法自动找到 rclone，请填写它在本机上的位置。' },
        flags: { label: '参数', help: '例如 --bwlimit=10M，每行一个。可用的参数见文档。' },
      },
    },
    OpenList: {
      about: '显示另一个网关（OpenList 或另一个 Tidegate）的文件。',
      fields: {
        ...gateway,
        pass_refresh_flag_to_upsteam: {
          label: '转告刷新',
          help: '在这里刷新文件夹时，如果账号有权限，对方也会刷新。',
        },
      },
    },
    'AList V3': { about: '显示另一个网关（AList 3）的文件。', fields: gateway },
    Alias: {
      about: '将其他存储的多个文件夹合并显示为一个。',
      fields: {
        paths: {
          label: '文件夹',
          help: '每行一个，例如 /disk/films。也可以在前面写名称（films:/disk/films），名称相同的文件夹会合并。',
        },
        write_conflict_policy: {
          label: '在哪里更改文件夹',
          help: '适用于新建文件夹、重命名和删除：当上面的多个文件夹都有该内容时，更改哪一个。',
        },
        put_conflict_policy: {
          label: '在哪里保存文件',
          help: '新文件保存到上面的哪个文件夹。已有的文件仍在原来的位置。',
        },
        read_conflict_policy: {
          label: '读取哪个副本',
          help: '如果多个文件夹都有同一个文件：读取第一个，或大小相同的任意一个。',
        },
        file_consistency_check: { label: '比较内容', help: '校验和也相同的文件才算作副本。' },
        details_pass_through: { label: '显示可用空间', help: '如果只有一个文件夹，则显示其所在存储的空间。' },
      },
    },
    Crypt: {
      about: '以 rclone 的格式，将内容加密保存在另一个存储的文件夹中。',
      fields: {
        remote_path: { label: '文件夹', help: '另一个存储中保存加密文件的文件夹。' },
        password: { label: '密码', help: '用来加密文件。请妥善保管：没有它，任何人都无法读取文件，以后也不能更改。' },
        salt: { label: '第二个密码', help: '即 rclone 的“salt”，可以留空。也请妥善保管。' },
        filename_encryption: {
          label: '名称',
          help: '是否加密文件的名称。“混淆”只是让名称难以辨认。',
        },
        directory_name_encryption: {
          label: '文件夹名称',
          help: '文件夹的名称是否也加密。如果名称不加密，则此项无效。',
        },
        filename_encoding: {
          label: '加密名称的字符',
          help: '如果下层存储不区分大小写，请使用 base32。rclone 默认使用 base32。',
        },
        encrypted_suffix: { label: '文件后缀', help: '加在未加密名称之后的后缀，例如 .bin。' },
        thumbnail: { label: '已保存的缩略图', help: '显示其他程序保存在 .thumbnails 文件夹中的缩略图。' },
        show_hidden: { label: '显示隐藏文件', help: '即名称以点开头的文件。' },
      },
    },
    Memory: {
      about: '将文件保存在服务器的内存中，存储停止后就会消失。用于测试。',
      fields: {
        size_limit: { label: '大小', help: '所有文件一共可以占用的字节数。0 表示不限制。' },
        case_sensitive: { label: '区分大小写', help: '关闭后，a.txt 和 A.txt 是同一个文件，与 Windows 相同。' },
      },
    },
    Virtual: {
      about: '生成只能读取的虚拟文件和文件夹。用于测试和演示。',
      fields: {
        num_file: { label: '文件数', help: '每个文件夹中的文件数量。' },
        num_folder: { label: '文件夹数', help: '每个文件夹中的文件夹数量，共两层。' },
        min_file_size: { label: '最小文件', help: '以字节为单位。' },
        max_file_size: { label: '最大文件', help: '以字节为单位。文件都小于这个值。' },
        root_folder_path: { label: '任意文字', help: '填写不同的文字，会生成不同的文件。' },
      },
    },
  },

  storageFields: {
    mount_path: { label: '挂载路径', help: '用户在 Tidegate 中看到它的位置，例如 /films。不必事先存在。' },
    order: { label: '排序', help: '数字小的存储排在前面。' },
    remark: { label: '备注', help: '仅供管理员查看，其他人看不到。' },
    cache_expiration: {
      label: '重新读取列表的间隔（分钟）',
      help: '其他程序所做的更改最晚多久可以看到。0 表示每次都向存储查询。',
    },
    custom_cache_policies: {
      label: '个别文件夹的间隔',
      help: '每行填写一个模式和缓存分钟数，用英文冒号分隔，例如 /news/**:1。',
    },
    web_proxy: {
      label: '通过本服务器下载',
      help: '关闭后，浏览器直接从存储下载，速度更快，但会暴露存储的地址。',
    },
    webdav_policy: {
      label: '通过 WebDAV 下载的方式',
      help: '客户端从哪里下载文件。下载代理的地址在下面填写。',
    },
    proxy_range: { label: '代理分段请求', help: '供其他网关使用，在这里不起作用。' },
    down_proxy_url: {
      label: '下载代理的地址',
      help: '由您自己的服务器发送文件，例如 https://proxy.example.org。留空则不使用。',
    },
    disable_proxy_sign: { label: '代理地址不签名', help: '如果您的代理不检查签名，请开启。' },
    order_by: { label: '排序方式', help: '供不会自行排序的客户端使用。留空则按原有顺序。' },
    order_direction: { label: '排序方向', help: '升序为从 A 到 Z，或从小到大。' },
    extract_folder: { label: '文件夹的位置', help: '文件夹在列表中的位置。留空则与文件混排。' },
    disable_index: { label: '不加入搜索', help: '搜索时找不到其中的文件。' },
    enable_sign: { label: '链接签名', help: '指向其中文件的链接需要签名，并且会过期。' },
  },
} satisfies Translation<'drivers'>
