"""What tests share: files of every format, damaged ones, promises, faulty proxies."""
