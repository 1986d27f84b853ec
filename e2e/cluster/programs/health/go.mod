module sallyport.dev/e2e/cluster/health

go 1.25.0

require github.com/yuin/gopher-lua v1.1.1
